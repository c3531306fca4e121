-- Revokes all tokens of a worker and ends its leases.
--
-- KEYS  1 zpe:worker_tokens:ID   2 zpe:revoked_tokens   3 zpe:lease:index   4 zpe:worker:ID
-- ARGV  1 worker   2 now, RFC 3339   3 now in unix seconds   4 an end that is over for the reaper
-- Returns how many tokens were revoked just now, or -1 for an unknown worker
if call('EXISTS', KEYS[4]) == 0 and call('EXISTS', KEYS[1]) == 0 then return -1 end
local count = 0
for _, hash in ipairs(call('SMEMBERS', KEYS[1])) do
  if call('EXISTS', key('token', hash)) == 1 and call('SADD', KEYS[2], hash) == 1 then
    call('HSET', key('token', hash), 'revoked_at', ARGV[2])
    count = count + 1
  end
end
for _, id in ipairs(call('ZRANGE', KEYS[3], 0, -1)) do
  if call('HGET', key('lease', id), 'worker_id') == ARGV[1] then
    call('HSET', key('lease', id), 'expires_at', ARGV[4])
    call('ZADD', KEYS[3], ARGV[4], id)
  end
end
return count
