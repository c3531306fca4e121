-- Extends a lease, in its hash and in the index together.
--
-- KEYS  3 zpe:lease:ID   4 zpe:lease:index   5 zpe:status:ID   6 zpe:payload:ID   7 zpe:retry_count:ID
-- ARGV  5 id   6 lease id   7 ttl in seconds   8 new end in unix seconds   9 ttl of results in ms
--      10 now, RFC 3339   11 job timeout in seconds   12 an end that is over for the reaper
--      13 message   14 steps done, may be empty   15 steps in all   16 kind
-- Returns {'ok', cancel requested 0 | 1, ttl in seconds} | {'lost'} | {'timeout'} | {'unknown'}
local lease = call('HMGET', KEYS[3], 'worker_id', 'lease_id', 'ttl', 'kind')
if lease[1] ~= worker or lease[2] ~= ARGV[6] then
  if call('EXISTS', KEYS[5]) == 0 then return {'unknown'} end
  return {'lost'}
end
if kind_of(lease[4]) ~= kind_of(ARGV[16]) then return {'unknown'} end
local status = call('HMGET', KEYS[5], 'first_leased_at', 'cancel_requested', 'status')
if status[1] and tonumber(ARGV[3]) >= tonumber(status[1]) + tonumber(ARGV[11]) then
  call('HSET', KEYS[3], 'expires_at', ARGV[12])
  call('ZADD', KEYS[4], 'XX', ARGV[12], ARGV[5])
  call('HSET', KEYS[5], 'timed_out', '1')
  return {'timeout'}
end
-- A worker beats as often as the lease asked for when it was given out. Under
-- rules that have been shortened since, its next beat would come too late.
local ttl, ends = ARGV[7], ARGV[8]
if (tonumber(lease[3]) or 0) > tonumber(ttl) then
  ttl, ends = lease[3], string.format('%.3f', tonumber(ARGV[3]) + tonumber(lease[3]))
end
call('HSET', KEYS[3], 'expires_at', ends, 'ttl', ttl)
call('ZADD', KEYS[4], 'XX', ends, ARGV[5])
if status[3] == 'started' then
  call('HSET', KEYS[5], 'updated_at', ARGV[10], 'worker_id', worker)
else
  local was = known(ARGV[5])
  if lease[4] then
    was[4] = lease[4]
    call('HSET', KEYS[5], 'kind', lease[4]) -- which may have been lost
  end
  become(was, ARGV[5], 'started', '', ARGV[10], ARGV[9], 'worker_id', worker)
end
if not status[1] then
  -- The status was lost. Without these the job would never time out.
  call('HSETNX', KEYS[5], 'leased_at', ARGV[3])
  call('HSETNX', KEYS[5], 'first_leased_at', ARGV[3])
end
if ARGV[13] ~= '' then call('HSET', KEYS[5], 'detail', ARGV[13]) end
if ARGV[14] ~= '' then call('HSET', KEYS[5], 'done', ARGV[14], 'total', ARGV[15]) end
call('PEXPIRE', KEYS[5], ARGV[9])
call('PEXPIRE', KEYS[6], ARGV[9])
call('PEXPIRE', KEYS[7], ARGV[9])
return {'ok', status[2] == '1' and 1 or 0, ttl}
