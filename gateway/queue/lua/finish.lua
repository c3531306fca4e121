-- Records the result of a job and ends its lease. What is on record stays: the
-- same content again from the lease that has won is no error, anything else is.
-- The result of a lease that was reaped is kept aside.
--
-- KEYS  3 zpe:lease:ID   4 zpe:lease:index   5 zpe:status:ID   6 zpe:payload:ID   7 zpe:retry_count:ID
--       8 zpe:result:ID   9 zpe:summary:ID   10 zpe:freqs:ID   11 zpe:reaped:ID   12 zpe:late:ID
--       13 zpe:artifacts:ID   14 zpe:uploads:ID:LEASE
-- ARGV  5 id   6 lease id   7 digest   8 result   9 summary   10 freqs   11 meta
--      12 ttl of results in ms   13 now, RFC 3339   14 ttl of late results in ms   15 kind
--      16 list of the artifacts, may be empty   17… of each its name, and size and SHA-256 as in artifact.lua
-- Returns {'ok', when leased, when created} | {'again'} | {'differs'} | {'late'} | {'lost'} | {'unknown'} | {'incomplete', name}
local status = call('HMGET', KEYS[5], 'status', 'detail', 'created_at', 'kind', 'worker_id', 'lease_id', 'digest', 'leased_at')
local lease = call('HMGET', KEYS[3], 'worker_id', 'lease_id', 'kind')
local other = not builtin(ARGV[15])
-- missing returns the first artifact that has not arrived whole.
local function missing()
  for i = 17, #ARGV, 2 do
    if call('HGET', KEYS[14], ARGV[i]) ~= ARGV[i + 1] then return ARGV[i] end
  end
end
if lease[1] == worker and lease[2] == ARGV[6] then
  if kind_of(lease[3]) ~= kind_of(ARGV[15]) then return {'unknown'} end
  local lacks = missing()
  if lacks then return {'incomplete', lacks} end
  if ARGV[16] ~= '' then call('SET', KEYS[13], ARGV[16], 'PX', ARGV[12]) end
  if other then
    status[4] = lease[3]
    call('HSET', KEYS[5], 'kind', lease[3]) -- which may have been lost
  end
  call('SET', KEYS[8], ARGV[8], 'PX', ARGV[12])
  if not other then
    call('SET', KEYS[9], ARGV[9], 'PX', ARGV[12])
    call('SET', KEYS[10], ARGV[10], 'PX', ARGV[12])
  end
  become(status, ARGV[5], 'finished', '', ARGV[13], ARGV[12],
    'worker_id', worker, 'lease_id', ARGV[6], 'digest', ARGV[7], 'meta', ARGV[11])
  call('HINCRBY', KEYS[5], 'outcomes', 1)
  call('HDEL', KEYS[5], 'error_code', 'error_message', 'traceback', 'done', 'total')
  call('ZREM', KEYS[4], ARGV[5])
  call('DEL', KEYS[3], KEYS[6], KEYS[7], KEYS[11], KEYS[12], KEYS[14])
  return {'ok', status[8] or '', status[3] or ''}
end
if not status[1] or kind_of(status[4]) ~= kind_of(ARGV[15]) then return {'unknown'} end
if status[1] == 'finished' and status[5] == worker and status[6] == ARGV[6] then
  return {status[7] == ARGV[7] and 'again' or 'differs'}
end
if status[1] ~= 'finished' and call('HGET', KEYS[11], ARGV[6]) == worker and not missing() then
  call('HSET', KEYS[12], 'worker_id', worker, 'lease_id', ARGV[6], 'digest', ARGV[7], 'result', ARGV[8],
    'summary', ARGV[9], 'freqs', ARGV[10], 'meta', ARGV[11], 'received_at', ARGV[13], 'artifacts', ARGV[16])
  call('PEXPIRE', KEYS[14], ARGV[14])
  call('PEXPIRE', KEYS[12], ARGV[14])
  return {'late'}
end
return {'lost'}
