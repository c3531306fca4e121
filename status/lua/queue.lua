-- Records a queue under its name.
--
-- KEYS  1 hash of queues
-- ARGV  1 name   2 what it is, as JSON   3 queues at most
-- Returns 1 if something was changed, 0 if it was on record so, -1 if there are too many
local known = redis.call('HGET', KEYS[1], ARGV[1])
if known == ARGV[2] then return 0 end
if not known and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return -1 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
