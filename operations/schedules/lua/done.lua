-- Records a run of a schedule and when it comes next, unless the schedule was changed meanwhile.
--
-- KEYS  1 {schedules}:next   2 {schedules}:last   3 {schedules}:all
-- ARGV  1 name   2 the schedule in JSON, as it was   3 when it comes next, in ms since 1970   4 the run in JSON, '' for none
if redis.call('HGET', KEYS[3], ARGV[1]) ~= ARGV[2] then return {0} end
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
if ARGV[4] ~= '' then redis.call('HSET', KEYS[2], ARGV[1], ARGV[4]) end
return {1}
