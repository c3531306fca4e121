-- Records how a job ended: once. Needs job.lua and log.lua before it.
--
-- KEYS  1 job:ID   2 {job:ID}:claim   3 {job:ID}:cancel   4 {job:ID}:log   5 {job:ID}:detail
--       6 {job:ID}:params
-- ARGV  1 token   2 ttl in seconds   3 progress, -1 to keep the one on record
--       4 head and 5 tail of the status document   6 log line   7 log cap in bytes
--       8 attempt   9 crashes   10 failures before   11 created_at   12 step, '' for none, and
--       13 how many lines the attempt had before, as for report.lua   14 how many log lines follow, and
--       those lines   … detail field, value, …
-- Returns {'ok', created_at, kind, 1 if the claim was taken back, as Redis had lost it}
--       | {the status word already on record, created_at, kind}, when the job had ended | {'lost'}
local status, progress = current(KEYS[1])
local created, kind, began, step = born(KEYS[5], ARGV[11])
if terminal(status) then return {status, created, kind} end
local mine, recreated = owns(KEYS[1], KEYS[2], ARGV[1], ARGV[8], ARGV[9], ARGV[10])
if not mine then return {'lost'} end

if tonumber(ARGV[3]) >= 0 then progress = tonumber(ARGV[3]) end
put(KEYS[1], ARGV[4], progress, ARGV[5], ARGV[2])
if ARGV[12] ~= '' and ARGV[12] ~= step then
  redis.call('HSET', KEYS[5], 'at_' .. ARGV[12], now() - (began or now()))
end
local n, lines = tonumber(ARGV[14]), {}
if n > 0 then lines = unwritten(KEYS[2], tonumber(ARGV[13]), {unpack(ARGV, 15, 14 + n)}) end
lines[#lines + 1] = ARGV[6]
close(KEYS[2], KEYS[3], KEYS[5], ARGV[2], 'created_at', created, unpack(ARGV, 15 + n))
keepParams(KEYS[6], '', ARGV[2])
last(KEYS[4], lines, tonumber(ARGV[7]), ARGV[2])
return {'ok', created, kind, recreated and 1 or 0}
