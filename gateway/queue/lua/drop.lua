-- Deletes a dead letter for good; its status says failed until it expires. Of a job
-- that lives elsewhere only the entry goes.
--
-- KEYS  1 zpe:dlq, or that of its kind   2 zpe:payload:ID   3 zpe:retry_count:ID   4 zpe:status:ID
-- ARGV  1 id
-- Returns how many were deleted, or -1 if there was none although there is such a job
local known = call('HMGET', KEYS[4], 'status', 'kind')
local status = known[1]
local n = call('LREM', of('dlq', known[2]), 0, ARGV[1])
took('dlq', known[2])
if n > 0 and (not status or status == 'failed') then call('DEL', KEYS[2], KEYS[3]) end
if n == 0 and status then return -1 end
return n
