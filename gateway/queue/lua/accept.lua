-- Makes the late result of a job its result, wherever the job is now.
--
-- KEYS  1 zpe:late:ID   2 zpe:status:ID   3 zpe:lease:ID   4 zpe:lease:index   5 zpe:queue   6 zpe:delay   7 zpe:dlq
--       8 zpe:result:ID   9 zpe:summary:ID   10 zpe:freqs:ID   11 zpe:payload:ID   12 zpe:retry_count:ID   13 zpe:reaped:ID
-- ARGV  1 id   2 now, RFC 3339   3 ttl of results in ms
-- Returns {'ok'} | {'unknown'} | {'finished'}
local late = call('HMGET', KEYS[1], 'worker_id', 'lease_id', 'digest', 'result', 'summary', 'freqs', 'meta')
if not late[1] then return {'unknown'} end
if call('HGET', KEYS[2], 'status') == 'finished' then return {'finished'} end
call('SET', KEYS[8], late[4], 'PX', ARGV[3])
call('SET', KEYS[9], late[5], 'PX', ARGV[3])
call('SET', KEYS[10], late[6], 'PX', ARGV[3])
call('HSET', KEYS[2], 'status', 'finished', 'detail', 'late result accepted', 'updated_at', ARGV[2],
  'worker_id', late[1], 'lease_id', late[2], 'digest', late[3], 'meta', late[7])
call('PEXPIRE', KEYS[2], ARGV[3])
call('ZREM', KEYS[4], ARGV[1])
call('ZREM', KEYS[6], ARGV[1])
call('LREM', KEYS[5], 0, ARGV[1])
call('LREM', KEYS[7], 0, ARGV[1])
call('DEL', KEYS[1], KEYS[3], KEYS[11], KEYS[12], KEYS[13])
return {'ok'}
