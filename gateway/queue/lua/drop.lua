-- Deletes a dead letter for good; its status says failed until it expires.
--
-- KEYS  1 zpe:dlq   2 zpe:payload:ID   3 zpe:retry_count:ID
-- ARGV  1 id
-- Returns how many were deleted
local n = call('LREM', KEYS[1], 0, ARGV[1])
if n > 0 then call('DEL', KEYS[2], KEYS[3]) end
return n
