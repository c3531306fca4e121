-- Records that an attempt has failed and ends its lease. The job is delayed, put back
-- into the queue, or becomes a dead letter: see retry.lua. The answer is kept, so that a
-- report whose answer was lost counts once.
--
-- KEYS  3 zpe:lease:ID   4 zpe:lease:index   5 zpe:status:ID   6 zpe:retry_count:ID   7 zpe:failed_ack:ID:LEASE
--       8 zpe:queue   9 zpe:delay   10 zpe:dlq
-- ARGV  5 id   6 lease id   7 digest   8 error code   9 message   10 traceback
--      11 'retry' | 'kind' (as often as the kind allows) | 'final' | 'back' (not counted)   12 ttl of results in ms
--      13 now, RFC 3339   14 ttl of the kept answer in ms   15 how often a job may come back uncounted
--      16 kind   17… when to run again, in unix seconds, after the 1st, 2nd, … failure
-- Returns {'ok', what became of it, retries, 'again' or ''} | {'differs'} | {'lost'} | {'unknown'}
local ack = call('HMGET', KEYS[7], 'worker_id', 'digest', 'became', 'retries')
if ack[1] == worker then
  if ack[2] ~= ARGV[7] then return {'differs'} end
  return {'ok', ack[3], tonumber(ack[4]), 'again'}
end
local lease = call('HMGET', KEYS[3], 'worker_id', 'lease_id', 'kind')
if lease[1] ~= worker or lease[2] ~= ARGV[6] then
  if not call('HGET', KEYS[5], 'status') then return {'unknown'} end
  return {'lost'}
end
if kind_of(lease[3]) ~= kind_of(ARGV[16]) then return {'unknown'} end

local id, at, ttl = ARGV[5], ARGV[13], ARGV[12]
local detail = ARGV[8] .. ': ' .. ARGV[9]
call('ZREM', KEYS[4], id)
call('DEL', KEYS[3])
call('HSET', KEYS[5], 'error_code', ARGV[8], 'error_message', ARGV[9], 'traceback', ARGV[10])
call('HDEL', KEYS[5], 'done', 'total')
local became
local own = not builtin(lease[3]) and ARGV[11] ~= 'retry' and ARGV[11] ~= 'back'
if own then call('HSET', KEYS[5], 'kind', lease[3]) end -- which may have been lost
if ARGV[11] == 'final' then
  count(id, own)
  became = deadletter(id, detail, at, ttl)
else
  became = stop(id, 'job timeout; ' .. detail, at, ttl)
end
if not became and ARGV[11] == 'back' and back(id, detail, at, ttl, ARGV[15]) then became = 'queued' end
if not became then became = retry(id, detail, at, ttl, 16, own) end
local n = counted(id)
call('HSET', KEYS[7], 'worker_id', worker, 'digest', ARGV[7], 'became', became, 'retries', n)
call('PEXPIRE', KEYS[7], ARGV[14])
return {'ok', became, n, ''}
