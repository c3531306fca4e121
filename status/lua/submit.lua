-- Records a job as queued, unless anything is known of it already.
--
-- KEYS  1 job:ID   2 {job:ID}:detail
-- ARGV  1 ttl in seconds   2 status document   3… detail field, value, …
-- Returns 1 if it was recorded, 0 if the job was known.
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[1])
redis.call('HSET', KEYS[2], unpack(ARGV, 3))
redis.call('EXPIRE', KEYS[2], ARGV[1])
return 1
