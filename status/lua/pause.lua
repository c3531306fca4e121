-- Pauses a kind. Needs job.lua before it.
--
-- KEYS  1 {fleet}:paused
-- ARGV  1 kind   2 kinds at most
-- Returns 1 if the kind is paused, by this call or an earlier one; 0 if there are too many
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 1 end
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%d', now()))
return 1
