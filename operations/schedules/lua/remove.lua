-- KEYS  1 {schedules}:all   2 {schedules}:next   3 {schedules}:last   ARGV  1 name
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
return {redis.call('HDEL', KEYS[1], ARGV[1])}
