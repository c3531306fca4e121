-- Extends leases, in their hashes and in the index together.
--
-- ARGV  1 now in unix seconds   2 now, RFC 3339   3 ttl of results in ms   4 ttl of a lease in seconds
--       5 new end in unix seconds   6 job timeout in seconds   7 an end that is over for the reaper
--       and of each call, after those of each.lua:
--       3 id   4 lease id   5 message   6 steps done, may be empty   7 steps in all   8 kind
-- Returns for each {'ok', cancel requested 0 | 1, ttl in seconds} | {'lost'} | {'timeout'} | {'unknown'} | {'refused', why}
local now, at, kept = ARGV[1], ARGV[2], ARGV[3]
local function heartbeat(e, worker)
  local id = ARGV[e + 3]
  local lease = call('HMGET', key('lease', id), 'worker_id', 'lease_id', 'ttl', 'kind')
  if lease[1] ~= worker or lease[2] ~= ARGV[e + 4] then
    if call('EXISTS', key('status', id)) == 0 then return {'unknown'} end
    return {'lost'}
  end
  if kind_of(lease[4]) ~= kind_of(ARGV[e + 8]) then return {'unknown'} end
  local status = call('HMGET', key('status', id), 'first_leased_at', 'cancel_requested', 'status')
  if status[1] and tonumber(now) >= tonumber(status[1]) + tonumber(ARGV[6]) then
    call('HSET', key('lease', id), 'expires_at', ARGV[7])
    call('ZADD', 'zpe:lease:index', 'XX', ARGV[7], id)
    call('HSET', key('status', id), 'timed_out', '1')
    return {'timeout'}
  end
  -- A worker beats as often as the lease asked for when it was given out. Under
  -- rules that have been shortened since, its next beat would come too late.
  local ttl, ends = ARGV[4], ARGV[5]
  if (tonumber(lease[3]) or 0) > tonumber(ttl) then
    ttl, ends = lease[3], string.format('%.3f', tonumber(now) + tonumber(lease[3]))
  end
  call('HSET', key('lease', id), 'expires_at', ends, 'ttl', ttl)
  call('ZADD', 'zpe:lease:index', 'XX', ends, id)
  local fields = {'worker_id', worker}
  if ARGV[e + 6] ~= '' then fields = {'worker_id', worker, 'done', ARGV[e + 6], 'total', ARGV[e + 7]} end
  if status[3] == 'started' then
    call('HSET', key('status', id), 'updated_at', at, unpack(fields))
  else
    local was = known(id)
    if lease[4] then
      was[4] = lease[4]
      call('HSET', key('status', id), 'kind', lease[4]) -- which may have been lost
    end
    become(was, id, 'started', '', at, kept, unpack(fields))
  end
  if not status[1] then
    -- The status was lost. Without these the job would never time out.
    call('HSETNX', key('status', id), 'leased_at', now)
    call('HSETNX', key('status', id), 'first_leased_at', now)
  end
  if ARGV[e + 5] ~= '' then call('HSET', key('status', id), 'detail', ARGV[e + 5]) end
  for _, name in ipairs({'status', 'payload', 'retry_count'}) do call('PEXPIRE', key(name, id), kept) end
  return {'ok', status[2] == '1' and 1 or 0, ttl}
end
return each(8, function() return 9 end, heartbeat)
