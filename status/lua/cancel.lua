-- Asks for a job to be stopped. A queued job is canceled on the spot; a running
-- one is told by the answer to its next report. Needs job.lua and log.lua before it.
--
-- KEYS  1 job:ID   2 {job:ID}:claim   3 {job:ID}:cancel   4 {job:ID}:log   5 {job:ID}:detail
--       6 {job:ID}:params
-- ARGV  1 ttl in seconds   2 head and 3 tail of the "canceled" document   4 created_at   5 log cap in bytes
-- Returns {'absent'} | {'asked'} | {'canceled', created_at, kind} | {'ended', created_at, kind, status word}
local status, progress = current(KEYS[1])
if not status then return {'absent'} end
local created, kind = born(KEYS[5], ARGV[4])
if terminal(status) then return {'ended', created, kind, status} end
if status ~= 'queued' then
  redis.call('SET', KEYS[3], '1', 'EX', ARGV[1])
  return {'asked'}
end
append(KEYS[4], {'canceled'}, tonumber(ARGV[5]), ARGV[1])
pack(KEYS[4], ARGV[1])
keepParams(KEYS[6], '', ARGV[1])
finish_canceled(KEYS[1], KEYS[2], KEYS[3], KEYS[5], ARGV[2], progress, ARGV[3], ARGV[1])
return {'canceled', created, kind}
