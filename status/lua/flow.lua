-- Adds the numbers of hours that are no longer kept to those of all the time before. Needs job.lua before it.
--
-- KEYS  1 jobs:flow
-- ARGV  1 how many hours are kept beside the current one
-- Returns how many fields were added
local hour, added = math.floor(now() / 3600000), 0
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local word, at = all[i]:match('^(%a+) (%d+)$')
  if word and math.abs(hour - tonumber(at)) > tonumber(ARGV[1]) then
    redis.call('HINCRBY', KEYS[1], word, all[i + 1])
    redis.call('HDEL', KEYS[1], all[i])
    added = added + 1
  end
end
return added
