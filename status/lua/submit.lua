-- Records a job as queued, unless anything is known of it already. Needs job.lua
-- before it.
--
-- KEYS  1 job:ID   2 {job:ID}:detail   3 {job:ID}:params   4 {job:ID}:claim
-- ARGV  1 ttl in seconds   2 status document   3 created_at   4 parameters, '' for none
--       5 when it may start, in ms since 1970, or 0   6… detail field, value, …
-- Returns {'new' | 'known', status word, created_at, what it was submitted as, '1' if its message was published
-- or is to be published later, kind}
if redis.call('EXISTS', KEYS[1]) == 1 then
  local d = redis.call('HMGET', KEYS[2], 'request', 'published', 'attempt', 'next_at')
  local created, kind = born(KEYS[2], ARGV[3])
  return {'known', current(KEYS[1]) or '', created, d[1] or '', (d[2] or d[3] or d[4]) and '1' or '', kind}
end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[1])
redis.call('HSET', KEYS[2], 'created_at', ARGV[3], unpack(ARGV, 6))
if tonumber(ARGV[5]) > now() then
  redis.call('HSET', KEYS[2], 'next_at', ARGV[5])
  redis.call('HSET', KEYS[4], 'next', ARGV[5]) -- a message that comes too early waits
  redis.call('EXPIRE', KEYS[4], ARGV[1])
end
redis.call('EXPIRE', KEYS[2], ARGV[1])
keepParams(KEYS[3], ARGV[4], ARGV[1])
return {'new', 'queued', tonumber(ARGV[3])}
