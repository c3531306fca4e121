-- Makes a job that has failed, or that is unknown, as if it had just
-- been submitted: no attempts, no crashes, no failures, no cancel. Its log goes on. Needs
-- job.lua and log.lua before it.
--
-- KEYS  1 job:ID   2 {job:ID}:claim   3 {job:ID}:cancel   4 {job:ID}:log   5 {job:ID}:detail
--       6 {job:ID}:params
-- ARGV  1 ttl in seconds   2 status document   3 log line   4 log cap in bytes
--       5 created_at   6 parameters, '' for none   7… detail field, value, …
-- Returns {the status word found, created_at}: 'failed', or '' for none, means that it
-- was queued again; any other that nothing was changed
local status, _, reason = current(KEYS[1])
local claim = redis.call('HMGET', KEYS[2], 'token', 'until')
if claim[1] and (tonumber(claim[2]) or 0) > now() then return {'processing'} end
if status == 'queued' or status == 'processing' or status == 'completed' or status == 'canceled' then return {status} end
local created = born(KEYS[5], ARGV[5])
local last = redis.call('HMGET', KEYS[5], 'attempt', 'finished_at')
if last[1] then remember(KEYS[5], last[1], 'failed', reason, last[2]) end
local had = redis.call('HMGET', KEYS[5], 'request', 'past')

redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[1])
redis.call('HDEL', KEYS[2], 'until', 'attempts', 'crashes', 'crashed', 'failures', 'failed', 'next')
redis.call('HSET', KEYS[2], 'token', noToken)
redis.call('EXPIRE', KEYS[2], ARGV[1])
redis.call('DEL', KEYS[3], KEYS[5], KEYS[6])
redis.call('HSET', KEYS[5], 'created_at', created, unpack(ARGV, 7))
if had[1] then redis.call('HSET', KEYS[5], 'request', had[1]) end
if had[2] then redis.call('HSET', KEYS[5], 'past', had[2]) end
redis.call('EXPIRE', KEYS[5], ARGV[1])
keepParams(KEYS[6], ARGV[6], ARGV[1])
append(KEYS[4], {ARGV[3]}, tonumber(ARGV[4]), ARGV[1])
return {status == 'failed' and 'failed' or '', created}
