-- Revokes all tokens of a worker and ends its leases, marked for the reaper.
--
-- KEYS  1 zpe:worker_tokens:ID   2 zpe:revoked_tokens   3 zpe:lease:index   4 zpe:worker:ID
-- ARGV  1 worker   2 now, RFC 3339   3 an end that is over for the reaper
-- Returns {tokens revoked just now, leases ended just now}, or {-1} for an unknown worker
if call('EXISTS', KEYS[4]) == 0 and call('EXISTS', KEYS[1]) == 0 then return {-1} end
local count, leases = 0, 0
for _, hash in ipairs(call('SMEMBERS', KEYS[1])) do
  if call('EXISTS', key('token', hash)) == 1 and call('SADD', KEYS[2], hash) == 1 then
    call('HSET', key('token', hash), 'revoked_at', ARGV[2])
    count = count + 1
  end
end
for _, id in ipairs(call('ZRANGE', KEYS[3], 0, -1)) do
  -- Somebody else's key must not keep the worker's other leases.
  local lease = redis.pcall('HMGET', key('lease', id), 'worker_id', 'revoked')
  if lease[1] == ARGV[1] then
    if not lease[2] then leases = leases + 1 end
    call('HSET', key('lease', id), 'expires_at', ARGV[3], 'revoked', '1')
    call('ZADD', KEYS[3], ARGV[3], id)
  end
end
return {count, leases}
