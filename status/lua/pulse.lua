-- Takes note that a worker lives, and tells it what it shall do. Needs job.lua before it.
--
-- KEYS  1 {fleet}:worker:ID   2 {fleet}:workers   3 {fleet}:paused   4 {fleet}:drained
-- ARGV  1 id   2 the worker, as JSON   3 ttl in seconds   4 ms after which a silent one is
--       forgotten, '' to forget none
-- Returns {ms since 1970, 1 if it shall take no jobs, paused kinds…}
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
redis.call('HSET', KEYS[2], ARGV[1], string.format('%d ', now()) .. ARGV[2])
if ARGV[4] ~= '' then
  local all = redis.call('HGETALL', KEYS[2])
  for i = 1, #all, 2 do
    local at = all[i + 1]:match('^%d+') or 0
    if now() - tonumber(at) > tonumber(ARGV[4]) then redis.call('HDEL', KEYS[2], all[i]) end
  end
  for _, id in ipairs(redis.call('HKEYS', KEYS[4])) do
    if redis.call('HEXISTS', KEYS[2], id) == 0 then redis.call('HDEL', KEYS[4], id) end
  end
end
return {now(), redis.call('HEXISTS', KEYS[4], ARGV[1]), unpack(redis.call('HKEYS', KEYS[3]))}
