-- Who calls, for the scripts that workers cause: their first two keys and their
-- first four arguments are these.
--
-- KEYS  1 zpe:token:HASH   2 zpe:revoked_tokens
-- ARGV  1 hash of the token; empty when the worker itself reaches Redis, and is
--         then worker 2   2 the worker's id   3 now in unix seconds
--       4 the id that the request says it is from; may be empty
-- Returns {'refused', 'revoked' | 'unknown' | 'expired' | 'mismatch'} if it must.
local function caller()
  local id = ARGV[2]
  if ARGV[1] ~= '' then
    if call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then return nil, 'revoked' end
    local token = call('HMGET', KEYS[1], 'worker_id', 'expires_at')
    if not token[1] then return nil, 'unknown' end
    if tonumber(token[2]) <= tonumber(ARGV[3]) then return nil, 'expired' end
    id = token[1]
  end
  if ARGV[4] ~= '' and ARGV[4] ~= id then return nil, 'mismatch' end
  return id
end
local worker, refused = caller()
if refused then return {'refused', refused} end
