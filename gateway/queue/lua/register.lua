-- Makes a worker, or gives one a new token, in exchange for an enroll token,
-- which is used up. With a valid token of its own a worker needs no enroll token;
-- its old tokens then hold for a moment longer.
--
-- KEYS  1 zpe:enroll:HASH   2 zpe:token:HASH (the new one)   3 zpe:revoked_tokens
--       4 zpe:token:HASH of the caller's own token, or none
-- ARGV  1 '1' if there is an enroll token   2 hash of the new token   3 hash of the caller's own, may be empty
--       4 worker id if it is a new one   5 now in unix seconds   6 new token's end   7 the old tokens' end
--       8 name   9 meta   10 now, RFC 3339   11 how long the records of token and worker are kept in ms
--      12 queue name   13 tokens of a worker at most
-- Returns {'ok', worker, name} | {'refused', 'revoked' | 'unknown' | 'expired'} | {'enroll'}
local worker, name = ARGV[4], ARGV[8]
local made = call('HMGET', KEYS[2], 'worker_id', 'label')
if made[1] then return {'ok', made[1], made[2]} end -- the answer to this very call was lost
if ARGV[3] ~= '' then
  if call('SISMEMBER', KEYS[3], ARGV[3]) == 1 then return {'refused', 'revoked'} end
  local token = call('HMGET', KEYS[4], 'worker_id', 'expires_at')
  if not token[1] then return {'refused', 'unknown'} end
  if tonumber(token[2]) <= tonumber(ARGV[5]) then return {'refused', 'expired'} end
  worker = token[1]
end
if ARGV[1] == '1' then
  local expires = call('HGET', KEYS[1], 'expires_at')
  if not expires or tonumber(expires) <= tonumber(ARGV[5]) then return {'enroll'} end
  call('DEL', KEYS[1])
elseif ARGV[3] == '' then
  return {'enroll'}
end
local record, tokens = key('worker', worker), key('worker_tokens', worker)
if name == '' then name = call('HGET', record, 'name') or worker end
local earlier = {}
for _, old in ipairs(call('SMEMBERS', tokens)) do
  local expires = tonumber(call('HGET', key('token', old), 'expires_at') or nil)
  if not expires then
    call('SREM', tokens, old)
  else
    if expires > tonumber(ARGV[7]) then
      call('HSET', key('token', old), 'expires_at', ARGV[7])
      expires = tonumber(ARGV[7])
    end
    if old ~= ARGV[3] then earlier[#earlier + 1] = {old, expires} end
  end
end
-- Whoever has a token can ask for any number. Those that end first are forgotten,
-- so that this loop stays short.
table.sort(earlier, function(a, b) return a[2] < b[2] end)
for i = 1, #earlier - tonumber(ARGV[13]) + 2 do
  call('DEL', key('token', earlier[i][1]))
  call('SREM', tokens, earlier[i][1])
end
call('HSET', KEYS[2], 'worker_id', worker, 'expires_at', ARGV[6], 'revoked_at', '', 'label', name)
call('PEXPIRE', KEYS[2], ARGV[11])
call('SADD', tokens, ARGV[2])
call('PEXPIRE', tokens, ARGV[11])
call('HSET', record, 'name', name, 'meta', ARGV[9], 'queue_name', ARGV[12], 'registered_at', ARGV[10])
call('PEXPIRE', record, ARGV[11])
-- For lists of workers; its newest entry lives the longest.
call('ZADD', 'zpe:workers', tonumber(ARGV[5]) + tonumber(ARGV[11]) / 1000, worker)
call('ZREMRANGEBYSCORE', 'zpe:workers', '-inf', ARGV[5])
call('PEXPIRE', 'zpe:workers', ARGV[11])
return {'ok', worker, name}
