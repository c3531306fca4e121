-- Adds hours that are over to the totals, of all fields together what they were before.
--
-- KEYS  1 zpe:counts, or that of the other kinds
-- ARGV  1 the first hour that is kept, as in the names of the fields
-- Returns how many fields were dropped
local dropped, counts = 0, redis.pcall('HGETALL', KEYS[1])
if counts.err then return 0 end
for i = 1, #counts, 2 do
  local hour, word = string.match(counts[i], '^(%d%d%d%d%-%d%d%-%d%dT%d%d) (%a+)$')
  if hour and hour < ARGV[1] then
    redis.pcall('HINCRBY', KEYS[1], word, counts[i + 1])
    call('HDEL', KEYS[1], counts[i])
    dropped = dropped + 1
  end
end
return dropped
