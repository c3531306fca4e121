-- Keeps a job on record that a worker leaves to others, because it does not have its kind: as
-- queued, if nothing is known of it. Needs job.lua before it.
--
-- KEYS  1 job:ID   2 {job:ID}:claim   3 {job:ID}:cancel   4 {job:ID}:log   5 {job:ID}:detail
--       6 {job:ID}:params
-- ARGV  1 ttl in seconds   2 head and 3 tail of the "queued" document   4 created_at
--       5 parameters, '' for none   6… detail field, value, …
-- Returns {status word, created_at, ms since the job was first heard of or is due, 1 if nothing was known of it}
local status, progress = current(KEYS[1])
local created = born(KEYS[5], ARGV[4])
local age = math.max(0, now() - math.max(created, tonumber(redis.call('HGET', KEYS[5], 'next_at')) or 0))
if terminal(status) then return {status, created, age} end
local claim = redis.call('HMGET', KEYS[2], 'token', 'until', 'attempts')
if claim[1] and (tonumber(claim[2]) or 0) > now() then return {'processing', created, age} end

if redis.call('HSETNX', KEYS[5], 'created_at', created) == 1 then
  redis.call('HSET', KEYS[5], unpack(ARGV, 6))
  keepParams(KEYS[6], ARGV[5], ARGV[1])
end
for _, key in ipairs(KEYS) do redis.call('EXPIRE', key, ARGV[1]) end
-- What is said of an attempt stays.
if not status or status == 'queued' and not claim[3] then put(KEYS[1], ARGV[2], progress, ARGV[3], ARGV[1]) end
return {status or 'queued', created, age, not status and 1 or 0}
