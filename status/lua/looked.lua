-- Says when to look next for jobs that Redis has forgotten. Needs job.lua before it.
--
-- KEYS  1 fleet:repair
-- ARGV  1 ms until the next   2 ms since 1970 of the loss that was looked for, 0 for none
--       3 '1' if that loss is dealt with
-- Returns 0 if another loss is on record by now: its look is due when it is; else 1
local lost = redis.call('HGET', KEYS[1], 'lost') or '0'
if lost ~= '0' and lost ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'next', now() + ARGV[1])
if ARGV[3] == '1' then redis.call('HSET', KEYS[1], 'lost', 0) end
return 1
