-- Records how a job ended: once. Needs log.lua and job.lua before it.
--
-- KEYS  1 job:ID   2 {job:ID}:claim   3 {job:ID}:cancel   4 {job:ID}:log   5 {job:ID}:detail
-- ARGV  1 token   2 ttl in seconds   3 progress, -1 to keep the one on record
--       4 head and 5 tail of the status document   6 log line   7 log cap in bytes
--       8 attempt   9 crashes   10… detail field, value, …
-- Returns 'ok' | the status word already on record, when the job had ended | 'lost'
local status, progress = current(KEYS[1])
if terminal(status) then return status end
if not owns(KEYS[1], KEYS[2], ARGV[1], ARGV[8], ARGV[9]) then return 'lost' end

if tonumber(ARGV[3]) >= 0 then progress = tonumber(ARGV[3]) end
put(KEYS[1], ARGV[4], progress, ARGV[5], ARGV[2])
redis.call('HDEL', KEYS[2], 'token', 'until')
redis.call('HINCRBY', KEYS[2], 'outcomes', 1)
redis.call('EXPIRE', KEYS[2], ARGV[2])
redis.call('DEL', KEYS[3])
redis.call('HSET', KEYS[5], unpack(ARGV, 10))
redis.call('EXPIRE', KEYS[5], ARGV[2])
append(KEYS[4], KEYS[2], {ARGV[6]}, tonumber(ARGV[7]), ARGV[2])
return 'ok'
