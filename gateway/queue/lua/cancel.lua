-- Cancels a job: one that waits ends at once, one that runs when its worker
-- hears of it or its lease is over. An entry that stays in the queue is passed
-- over by lease.lua.
--
-- KEYS  1 zpe:status:ID   2 zpe:delay   3 zpe:lease:ID   4 zpe:cancels
-- ARGV  1 id   2 now, RFC 3339   3 ttl of results in ms   4 how long gateways look back for it, in ms
-- Returns {'ok'} | {'ended', status} | {'unknown'}
local job = call('HMGET', KEYS[1], 'status', 'detail', 'cancel_requested', 'kind')
local status = job[1]
if not status then return {'unknown'} end
if status == 'failed' and job[2] == 'canceled' then return {'ended', 'canceled'} end
if status == 'finished' or status == 'failed' then return {'ended', status} end
if call('EXISTS', KEYS[3]) == 1 then
  if job[3] ~= '1' then
    call('HSET', KEYS[1], 'cancel_requested', '1', 'updated_at', ARGV[2])
    tell(job[4], ARGV[1])
  end
  -- By the clock that all gateways share, for those that hold a heartbeat of its worker.
  local time = call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now - ARGV[4])
  call('ZADD', KEYS[4], now, ARGV[1])
  call('PEXPIRE', KEYS[4], ARGV[4])
  return {'ok'}
end
call('ZREM', KEYS[2], ARGV[1])
call('HDEL', KEYS[1], 'error_message', 'traceback') -- of an earlier run
finish_canceled(ARGV[1], ARGV[2], ARGV[3])
return {'ok'}
