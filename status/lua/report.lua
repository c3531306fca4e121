-- Records the progress of a running attempt, prolongs its claim, and says
-- whether to go on. The end of a job takes the token away, so a job that has ended
-- is lost too. Needs job.lua and log.lua before it.
--
-- KEYS  1 job:ID   2 {job:ID}:claim   3 {job:ID}:cancel   4 {job:ID}:log   5 {job:ID}:detail
--       6 {job:ID}:params
-- ARGV  1 token   2 hold in ms   3 ttl in seconds   4 attempt   5 crashes   6 log cap in bytes
--       7 status document, '' to leave it as it is   8 step, '' for none   9 created_at
--       10 how many lines the attempt had before   11 worker's id   12 queue and 13 ack of
--       the lease   14 failures before   15… log lines
-- Returns {'ok' | 'canceled', created_at and kind if Redis had lost the claim or the status, so that
-- the indexes are to be written again} | {'lost'}
local mine, recreated = owns(KEYS[1], KEYS[2], ARGV[1], ARGV[4], ARGV[5], ARGV[14])
if not mine then return {'lost'} end
if recreated then keep(KEYS[2], ARGV[11], ARGV[12], ARGV[13]) end
recreated = recreated or ARGV[7] ~= '' and current(KEYS[1]) ~= 'processing'

redis.call('HSET', KEYS[2], 'until', now() + ARGV[2], 'seen', now())
redis.call('EXPIRE', KEYS[2], ARGV[3])
if ARGV[7] ~= '' then
  redis.call('SET', KEYS[1], ARGV[7], 'EX', ARGV[3])
else
  redis.call('EXPIRE', KEYS[1], ARGV[3])
end
if ARGV[8] ~= '' and redis.call('HGET', KEYS[5], 'step') ~= ARGV[8] then
  local began = tonumber(redis.call('HGET', KEYS[5], 'started_at')) or now()
  redis.call('HSET', KEYS[5], 'step', ARGV[8], 'at_' .. ARGV[8], now() - began, 'started_at', began)
end
local created, kind
if recreated then
  created, kind = born(KEYS[5], ARGV[9])
  redis.call('HSET', KEYS[5], 'created_at', created)
end
redis.call('EXPIRE', KEYS[5], ARGV[3])
keepParams(KEYS[6], '', ARGV[3])
if #ARGV > 14 then
  local lines, known = unwritten(KEYS[2], tonumber(ARGV[10]), {unpack(ARGV, 15)})
  append(KEYS[4], lines, tonumber(ARGV[6]), ARGV[3])
  redis.call('HSET', KEYS[2], 'lines', known)
end
if redis.call('EXISTS', KEYS[3]) == 1 then return {'canceled', created, kind} end
return {'ok', created, kind}
