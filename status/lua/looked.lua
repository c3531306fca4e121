-- Ends a look for jobs that Redis has forgotten.
--
-- KEYS  1 fleet:repair
-- ARGV  1 ms until the next   2 ms since 1970 of the loss that was looked for, 0 for none
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local s = redis.call('HMGET', KEYS[1], 'lost', 'next')
local newer = s[1] and s[1] ~= ARGV[2] and s[1] ~= '0'
if newer then return 0 end -- lost once more meanwhile: that look is due when it is
redis.call('HSET', KEYS[1], 'next', now + ARGV[1], 'lost', 0)
return 1
