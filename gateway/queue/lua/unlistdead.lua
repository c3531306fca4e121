-- Takes jobs off the list of dead letters that are not on record any more: their
-- status has expired.
--
-- ARGV  1 how many of the oldest to pass over   2 how many to look at   3 the kind whose they are
-- Returns {entries looked at, entries dropped}
local letters = of('dlq', ARGV[3])
local ids = redis.pcall('LRANGE', letters, -ARGV[1] - ARGV[2], -ARGV[1] - 1)
if ids.err then return {0, 0} end -- somebody else has written there
local gone = 0
for i = #ids, 1, -1 do
  if call('EXISTS', key('status', ids[i])) == 0 then gone = gone + call('LREM', letters, -1, ids[i]) end
end
if gone > 0 or #ids == 0 then took('dlq', ARGV[3]) end
return {#ids, gone}
