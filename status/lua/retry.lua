-- Records that an attempt has failed and is to be made again: the failure is counted once,
-- apart from crashes, the claim given back, and the job queued. It can be claimed again when
-- its time has come. Needs job.lua and log.lua before it.
--
-- KEYS  1 job:ID   2 {job:ID}:claim   3 {job:ID}:cancel   4 {job:ID}:log   5 {job:ID}:detail
--       6 {job:ID}:params
-- ARGV  1 token   2 ttl in seconds   3 ms until the next attempt   4 head and 5 tail of the
--       "queued" document   6 head and 7 tail of the "canceled" document   8 log line   9 log
--       cap in bytes   10 attempt   11 crashes   12 failures before   13 created_at   14 code of
--       the failure, '' for none   15 why it has failed
-- Returns {status word on record, created_at, kind, 1 if this call has ended it}: 'queued' when the job
-- runs again, 'canceled' when somebody has asked for that, or how it had ended | {'lost'}
local status, progress = current(KEYS[1])
local created, kind = born(KEYS[5], ARGV[13])
if terminal(status) then return {status, created, kind} end
if redis.call('HGET', KEYS[2], 'failed') == ARGV[1] then return {'queued', created, kind} end -- the answer to an earlier call was lost
if not owns(KEYS[1], KEYS[2], ARGV[1], ARGV[10], ARGV[11], ARGV[12]) then return {'lost'} end

redis.call('HSET', KEYS[5], 'created_at', created)
if ARGV[14] ~= '' then redis.call('HSET', KEYS[5], 'code', ARGV[14]) end
if redis.call('EXISTS', KEYS[3]) == 1 then
  append(KEYS[4], {string.format('attempt %d canceled', tonumber(ARGV[10]))}, tonumber(ARGV[9]), ARGV[2])
  pack(KEYS[4], ARGV[2])
  finish_canceled(KEYS[1], KEYS[2], KEYS[3], KEYS[5], ARGV[6], progress, ARGV[7], ARGV[2])
  return {'canceled', created, kind, 1}
end
append(KEYS[4], {ARGV[8]}, tonumber(ARGV[9]), ARGV[2])
remember(KEYS[5], ARGV[10], 'failed', ARGV[15])
local due = now() + ARGV[3]
redis.call('HINCRBY', KEYS[2], 'failures', 1)
redis.call('HSET', KEYS[2], 'failed', ARGV[1], 'next', due)
unclaim(KEYS[2])
redis.call('EXPIRE', KEYS[2], ARGV[2])
redis.call('HSET', KEYS[5], 'next_at', due)
redis.call('EXPIRE', KEYS[5], ARGV[2])
keepParams(KEYS[6], '', ARGV[2])
put(KEYS[1], ARGV[4], progress, ARGV[5], ARGV[2])
return {'queued', created, kind}
