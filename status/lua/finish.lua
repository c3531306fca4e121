-- Records how a job ended: once. Needs job.lua and log.lua before it.
--
-- KEYS  1 job:ID   2 {job:ID}:claim   3 {job:ID}:cancel   4 {job:ID}:log   5 {job:ID}:detail
--       6 {job:ID}:params
-- ARGV  1 token   2 ttl in seconds   3 progress, -1 to keep the one on record
--       4 head and 5 tail of the status document   6 log line   7 log cap in bytes
--       8 attempt   9 crashes   10 failures before   11 created_at   12… detail field, value, …
-- Returns {'ok', created_at, 1 if the claim was taken back, as Redis had lost it}
--       | {the status word already on record, created_at}, when the job had ended | {'lost'}
local status, progress = current(KEYS[1])
local created = born(KEYS[5], ARGV[11])
if terminal(status) then return {status, created} end
local mine, recreated = owns(KEYS[1], KEYS[2], ARGV[1], ARGV[8], ARGV[9], ARGV[10])
if not mine then return {'lost'} end

if tonumber(ARGV[3]) >= 0 then progress = tonumber(ARGV[3]) end
put(KEYS[1], ARGV[4], progress, ARGV[5], ARGV[2])
redis.call('HSET', KEYS[5], 'created_at', created, unpack(ARGV, 12))
close(KEYS[2], KEYS[3], KEYS[5], ARGV[2])
keepParams(KEYS[6], '', ARGV[2])
last(KEYS[4], ARGV[6], tonumber(ARGV[7]), ARGV[2])
return {'ok', created, recreated and 1}
