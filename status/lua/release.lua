-- Gives a claim back without an outcome, so that another worker may have it at
-- once and this start does not count as a crash. If another worker has already counted
-- it as one, the count is corrected. Needs job.lua and log.lua.
--
-- KEYS  1 job:ID   2 {job:ID}:claim   3 {job:ID}:log   4 {job:ID}:detail
-- ARGV  1 token   2 ttl in seconds   3 head and 4 tail of the "queued" document, head '' to leave
--       the status as it is   5 log line   6 log cap in bytes   7 created_at   8 attempt   9 why
-- Returns {'ok', created_at, status word, kind} | {'late'}, if the count was corrected | {'lost'}
local token = redis.call('HGET', KEYS[2], 'token')
if token ~= ARGV[1] and token ~= lapsed .. ARGV[1] then
  if not uncountCrash(KEYS[2], KEYS[4], ARGV[1]) then return {'lost'} end
  correct(KEYS[4], ARGV[8], ARGV[9])
  append(KEYS[3], {ARGV[5]}, tonumber(ARGV[6]), ARGV[2])
  return {'late'}
end
unclaim(KEYS[2])
redis.call('EXPIRE', KEYS[2], ARGV[2])
local status, progress = current(KEYS[1])
if not terminal(status) then remember(KEYS[4], ARGV[8], 'handed back', ARGV[9]) end
if ARGV[3] ~= '' and not terminal(status) then
  put(KEYS[1], ARGV[3], progress, ARGV[4], ARGV[2])
  status = 'queued'
end
append(KEYS[3], {ARGV[5]}, tonumber(ARGV[6]), ARGV[2])
local created, kind = born(KEYS[4], ARGV[7])
return {'ok', created, status or '', kind}
