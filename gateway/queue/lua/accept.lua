-- Makes the late result of a job its result, wherever the job is now. An entry in
-- the queue stays, for lease.lua to pass over: finding it would take too long.
--
-- KEYS  1 zpe:late:ID   2 zpe:status:ID   3 zpe:lease:ID   4 zpe:lease:index   5 zpe:delay   6 zpe:dlq
--       7 zpe:result:ID   8 zpe:summary:ID   9 zpe:freqs:ID   10 zpe:payload:ID   11 zpe:retry_count:ID   12 zpe:reaped:ID   13 zpe:artifacts:ID
-- ARGV  1 id   2 now, RFC 3339   3 ttl of results in ms
-- Returns {'ok'} | {'unknown'} | {'finished'}
local late = call('HMGET', KEYS[1], 'worker_id', 'lease_id', 'digest', 'result', 'summary', 'freqs', 'meta', 'artifacts')
if not late[1] then return {'unknown'} end
local was = known(ARGV[1])
local status = was[1]
if status == 'finished' then return {'finished'} end
call('SET', KEYS[7], late[4], 'PX', ARGV[3])
if late[8] and late[8] ~= '' then call('SET', KEYS[13], late[8], 'PX', ARGV[3]) end
if builtin(was[4]) then
  call('SET', KEYS[8], late[5], 'PX', ARGV[3])
  call('SET', KEYS[9], late[6], 'PX', ARGV[3])
end
become(was, ARGV[1], 'finished', 'late result accepted', ARGV[2], ARGV[3],
  'worker_id', late[1], 'lease_id', late[2], 'digest', late[3], 'meta', late[7])
call('HINCRBY', KEYS[2], 'outcomes', 1)
call('HDEL', KEYS[2], 'error_code', 'error_message', 'traceback', 'done', 'total')
call('ZREM', KEYS[4], ARGV[1])
call('ZREM', KEYS[5], ARGV[1])
if status == 'failed' then
  call('LREM', of('dlq', was[4]), 0, ARGV[1])
  took('dlq', was[4])
end
call('DEL', KEYS[1], KEYS[3], KEYS[10], KEYS[11], KEYS[12])
return {'ok'}
