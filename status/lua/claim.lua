-- Makes one worker the only one to run a job, and counts the start before it
-- happens. Needs job.lua and log.lua before it.
--
-- A token whose hold is over belongs to a worker that stopped reporting: the attempt
-- counts as a crash until that worker releases it (release.lua). Asking again with
-- the same token (a lost answer) only prolongs the hold.
--
-- KEYS  1 job:ID   2 {job:ID}:claim   3 {job:ID}:cancel   4 {job:ID}:log   5 {job:ID}:detail
--       6 {job:ID}:params
-- ARGV  1 token   2 hold in ms   3 ttl in seconds   4 crashes allowed
--       5 head and 6 tail of the "processing" document
--       7 head and 8 tail of the "canceled" document
--       9 log line   10 log cap in bytes   11 created_at   12 worker's id   13 queue and 14 ack
--       of the lease, '' if others cannot hand it back   15 parameters, '' for none
--       16… detail field, value, …
-- Returns {'ended', created_at, kind, status, error, attempts, 1 if this call has ended it}
--       | {'busy', created_at, kind, ms left} | {'waiting', created_at, kind, ms until the next attempt}
--       | {'granted', created_at, kind, attempt, crashes, failures, 1 if nothing was known of the job}
--       | {'crashloop', the same}
-- The kind is that on record before, '' for none.
local status, progress, reason = current(KEYS[1])
local claim = redis.call('HMGET', KEYS[2], 'token', 'until', 'attempts', 'crashes', 'failures', 'next', 'seen')
local token, attempts, crashes = claim[1], tonumber(claim[3]) or 0, tonumber(claim[4]) or 0
local failures, created, kind = tonumber(claim[5]) or 0, born(KEYS[5], ARGV[11])
if terminal(status) then return {'ended', created, kind, status, reason, tonumber(redis.call('HGET', KEYS[5], 'attempt')) or 0, 0} end

local left = (tonumber(claim[2]) or 0) - now()
if token and token ~= ARGV[1] and left > 0 then return {'busy', created, kind, left} end

if redis.call('EXISTS', KEYS[3]) == 1 then
  append(KEYS[4], {attempts > 0 and string.format('attempt %d canceled', attempts) or 'canceled'}, tonumber(ARGV[10]), ARGV[3])
  finish_canceled(KEYS[1], KEYS[2], KEYS[3], KEYS[5], ARGV[7], progress, ARGV[8], ARGV[3])
  return {'ended', created, kind, 'canceled', '', attempts, 1}
end

local wait = (tonumber(claim[6]) or 0) - now()
if wait > 0 then return {'waiting', created, kind, wait} end

if token ~= ARGV[1] and token ~= lapsed .. ARGV[1] then
  attempts = attempts + 1
  if token and token ~= noToken then
    crashes = crashes + 1
    remember(KEYS[5], attempts - 1, 'crashed', '', claim[7])
    countCrash(KEYS[2], token)
  end
  append(KEYS[4], {string.format(ARGV[9], attempts)}, tonumber(ARGV[10]), ARGV[3])
  if token or claim[3] then redis.call('HDEL', KEYS[2], 'lines', 'next') end
  if attempts > 1 then -- the times of steps count from the start of the attempt
    for _, field in ipairs(redis.call('HKEYS', KEYS[5])) do
      if field:sub(1, 3) == 'at_' then redis.call('HDEL', KEYS[5], field) end
    end
  end
end
keep(KEYS[2], ARGV[12], ARGV[13], ARGV[14], 'token', ARGV[1], 'until', now() + ARGV[2], 'seen', now(), 'attempts', attempts, 'crashes', crashes)
redis.call('HSET', KEYS[5], 'attempt', attempts, 'started_at', now(), 'created_at', created, unpack(ARGV, 16))
redis.call('HDEL', KEYS[5], 'step', 'code', 'crashes', 'next_at')
if crashes > 0 then redis.call('HSET', KEYS[5], 'crashes', crashes) end
redis.call('EXPIRE', KEYS[2], ARGV[3])
redis.call('EXPIRE', KEYS[5], ARGV[3])
keepParams(KEYS[6], ARGV[15], ARGV[3])
if crashes >= tonumber(ARGV[4]) then return {'crashloop', created, kind, attempts, crashes, failures, status and 0 or 1} end
put(KEYS[1], ARGV[5], 0, ARGV[6], ARGV[3])
return {'granted', created, kind, attempts, crashes, failures, status and 0 or 1}
