-- Returns the schedules whose time has come, to the one who makes their jobs.
--
-- KEYS  1 {schedules}:runner   2 {schedules}:next   3 {schedules}:all
-- ARGV  1 who asks   2 for how many ms no other process is asked   3 how many schedules at most
-- Returns {1 if the caller is to make jobs, now in ms since 1970, ms until the next one or -1, then for each: name, when it
-- is due in ms, the schedule in JSON}
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return {0, now, -1} end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
local got = {1, now, first[2] and math.max(0, tonumber(first[2]) - now) or -1}
local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'WITHSCORES', 'LIMIT', 0, ARGV[3])
for i = 1, #due, 2 do
  local text = redis.call('HGET', KEYS[3], due[i])
  if text then
    got[#got + 1], got[#got + 2], got[#got + 3] = due[i], due[i + 1], text
  else
    redis.call('ZREM', KEYS[2], due[i])
  end
end
return got
