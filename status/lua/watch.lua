-- Makes one worker the only one to look for silent workers. Needs job.lua before it.
--
-- KEYS  1 the lock
-- ARGV  1 worker's id   2 ttl in ms, 0 to leave it to others
-- Returns {1 if the lock is this worker's, ms since 1970} | {0, ms since 1970, ms until the
-- lock is free}
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return {0, now(), math.max(0, redis.call('PTTL', KEYS[1]))} end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
  return {0, now(), 0}
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {1, now()}
