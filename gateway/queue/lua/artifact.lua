-- Records an artifact that has arrived whole, under the lease of its attempt. Without a
-- name it says whether the caller holds the lease, and does nothing else.
--
-- KEYS  3 zpe:lease:ID   4 zpe:status:ID   5 zpe:uploads:ID:LEASE, or zpe:checkpoint:ID
-- ARGV  5 lease id   6 kind   7 name, may be empty   8 size and SHA-256, with a colon between
--       9 ttl in ms   10 how many there may be
-- Returns {'ok'} | {'lost'} | {'unknown'} | {'many'}
local lease = call('HMGET', KEYS[3], 'worker_id', 'lease_id', 'kind')
if lease[1] ~= worker or lease[2] ~= ARGV[5] then
  if call('EXISTS', KEYS[4]) == 0 then return {'unknown'} end
  return {'lost'}
end
if kind_of(lease[3]) ~= kind_of(ARGV[6]) then return {'unknown'} end
if ARGV[7] ~= '' then
  if call('HEXISTS', KEYS[5], ARGV[7]) == 0 and call('HLEN', KEYS[5]) >= tonumber(ARGV[10]) then return {'many'} end
  call('HSET', KEYS[5], ARGV[7], ARGV[8])
  call('PEXPIRE', KEYS[5], ARGV[9])
end
return {'ok'}
