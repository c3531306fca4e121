-- Who calls, for the scripts that are about one call of a worker: their first two keys and
-- their first four arguments are these.
--
-- KEYS  1 zpe:token:HASH   2 zpe:revoked_tokens
-- ARGV  1 hash of the token, may be empty   2 the worker's id then   3 now in unix seconds
--       4 the id that the request says it is from; may be empty
-- Returns {'refused', why} if it must: see who.lua.
local worker, refused = who(ARGV[1], ARGV[2], ARGV[3], ARGV[4])
if refused then return {'refused', refused} end
