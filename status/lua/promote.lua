-- Returns jobs whose time has come, to the one who publishes their messages. Needs job.lua before it.
--
-- KEYS  1 {fleet}:promoter   2 {fleet}:delayed
-- ARGV  1 who asks   2 for how many ms no other process is asked to publish   3 how many jobs at most
--       4… jobs that were published, or need not be: they are forgotten here
-- Returns {1 if the caller is to publish, ms until the next job is due or -1 for none, ids…}
if #ARGV > 3 then redis.call('ZREM', KEYS[2], unpack(ARGV, 4)) end
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return {0, -1} end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now(), 'LIMIT', 0, ARGV[3])
local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
local wait = first[2] and math.max(0, tonumber(first[2]) - now()) or -1
return {1, wait, unpack(due)}
