-- Tells a worker to take no more jobs, or to take some again. Needs job.lua before it.
--
-- KEYS  1 {fleet}:workers   2 {fleet}:drained
-- ARGV  1 id   2 '1' to take no more
-- Returns 1, or 0 if there is no such worker
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
if ARGV[2] == '1' then
  redis.call('HSETNX', KEYS[2], ARGV[1], string.format('%d', now()))
else
  redis.call('HDEL', KEYS[2], ARGV[1])
end
return 1
