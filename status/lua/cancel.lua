-- Asks for a job to be stopped. A queued job is canceled on the spot; a running
-- one is told by the answer to its next report. Needs job.lua before it.
--
-- KEYS  1 job:ID   2 {job:ID}:claim   3 {job:ID}:cancel   4 {job:ID}:detail
-- ARGV  1 ttl in seconds   2 head and 3 tail of the "canceled" document   4 finished_at
-- Returns 'absent' | 'asked' | 'canceled' | the status word on record, when the job had ended
local status, progress = current(KEYS[1])
if not status then return 'absent' end
if terminal(status) then return 'ended:' .. status end
if status ~= 'queued' then
  redis.call('SET', KEYS[3], '1', 'EX', ARGV[1])
  return 'asked'
end
put(KEYS[1], ARGV[2], progress, ARGV[3], ARGV[1])
redis.call('HDEL', KEYS[2], 'token', 'until')
redis.call('HINCRBY', KEYS[2], 'outcomes', 1)
redis.call('EXPIRE', KEYS[2], ARGV[1])
redis.call('HSET', KEYS[4], 'finished_at', ARGV[4])
redis.call('EXPIRE', KEYS[4], ARGV[1])
return 'canceled'
