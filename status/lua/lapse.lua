-- Takes a claim away from a worker that has been silent until it was over, so that
-- its lease can be handed back: whatever that worker still writes is refused. Needs
-- job.lua before it.
--
-- KEYS  1 {job:ID}:claim
-- ARGV  1 token   2 '1' once the lease was handed back, so that it is not again
-- Returns 1 if the claim is taken away, by this call or an earlier one; 0 if it holds
-- or is another one by now
local claim = redis.call('HMGET', KEYS[1], 'token', 'until')
if claim[1] == ARGV[1] then
  if (tonumber(claim[2]) or 0) > now() then return 0 end
  redis.call('HSET', KEYS[1], 'token', lapsed .. ARGV[1])
elseif claim[1] ~= lapsed .. ARGV[1] then
  return 0
end
if ARGV[2] == '1' then redis.call('HDEL', KEYS[1], 'ack') end
return 1
