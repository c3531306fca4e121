-- Saves a schedule.
--
-- KEYS  1 {schedules}:all   2 {schedules}:next
-- ARGV  1 name   2 the schedule in JSON   3 when it comes next, in ms since 1970, or '' for never   4 how many there may be
-- Returns {-1 if there are too many, 0 if it is new, 1 if it has replaced one}
local old = redis.call('HEXISTS', KEYS[1], ARGV[1])
if old == 0 and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[4]) then return {-1} end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
if ARGV[3] == '' then redis.call('ZREM', KEYS[2], ARGV[1]) else redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1]) end
return {old}
