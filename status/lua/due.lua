-- Says whether it is time to look for jobs that Redis has forgotten, and gives that
-- look to one worker. A server that was restarted, or that is another one than before,
-- may have lost what it wrote last: then the look comes soon. Needs job.lua before it.
--
-- KEYS  1 fleet:repair
-- ARGV  1 ms until the next look if this one does not end   2 ms for running workers to write
--       after a loss   3 ttl in seconds   4 the runs of all servers
-- Returns {1 if the caller is to look, ms since 1970 of a loss that is still to be
-- looked for, or 0}
local at = now()
local s = redis.call('HMGET', KEYS[1], 'run', 'next', 'lost')
local due, lost = tonumber(s[2]) or 0, tonumber(s[3]) or 0
if s[1] ~= ARGV[4] then
  due, lost = at + ARGV[2], at
  redis.call('HSET', KEYS[1], 'run', ARGV[4], 'next', due, 'lost', lost)
end
redis.call('EXPIRE', KEYS[1], ARGV[3])
if due > at then return {0, lost} end
redis.call('HSET', KEYS[1], 'next', at + ARGV[1])
return {1, lost}
