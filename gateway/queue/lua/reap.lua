-- Takes back leases that have ended. Each is read again here: an extension or a result
-- that came first counts.
--
-- KEYS  1 zpe:lease:index   2 zpe:delay   3 zpe:dlq
-- ARGV  1 leases that end up to here have ended, in unix seconds   2 how many at most
--       3 ttl of results in ms   4 now, RFC 3339   5 ttl of what is kept of a lease in ms
--       6 job timeout in seconds   7 how often a job may come back uncounted
--       8… when to run again, in unix seconds, after the 1st, 2nd, … failure
-- Returns {id, 'orphan' | 'extended' | 'delayed' | 'queued' | 'dead' | 'canceled' | 'foreign', worker, error code, retries, kind, …},
-- six a lease
local done = {}
local function note(id, word, worker, code, retries, kind)
  done[#done + 1] = id
  done[#done + 1] = word
  done[#done + 1] = worker or ''
  done[#done + 1] = code or ''
  done[#done + 1] = retries or 0
  done[#done + 1] = kind or ''
end
-- foreign reports whether another program has written to a key of a job: a command
-- that fails halfway would lose the job, and keep all others from being taken back.
local function foreign(id)
  for _, name in ipairs({'lease', 'status', 'reaped'}) do
    local kind = call('TYPE', key(name, id)).ok
    if kind ~= 'hash' and kind ~= 'none' then return true end
  end
  return false
end
for _, id in ipairs(call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])) do
  local odd = foreign(id)
  local lease = odd and {} or call('HMGET', key('lease', id), 'worker_id', 'lease_id', 'expires_at', 'revoked', 'kind')
  if odd then
    -- People must look at it, and find it among the dead letters.
    call('ZREM', KEYS[1], id)
    call('LPUSH', KEYS[3], id)
    note(id, 'foreign')
  elseif call('EXISTS', key('lease', id)) == 0 then
    call('ZREM', KEYS[1], id)
    note(id, 'orphan')
  elseif (tonumber(lease[3]) or 0) > tonumber(ARGV[1]) then
    call('ZADD', KEYS[1], lease[3], id)
    note(id, 'extended')
  else
    call('ZREM', KEYS[1], id)
    call('DEL', key('lease', id))
    call('HDEL', key('status', id), 'done', 'total', 'error_message', 'traceback')
    if lease[5] then call('HSET', key('status', id), 'kind', lease[5]) end -- which may have been lost
    local holder = lease[1] or '?'
    if lease[1] and lease[2] then remember(id, lease[2], holder, ARGV[5]) end
    local became = stop(id, 'job timeout: it did not end within ' .. ARGV[6] .. ' s of its first lease', ARGV[4], ARGV[3])
    if became == 'canceled' then
      note(id, became, holder, 'CANCELED', 0, lease[5])
    elseif became then
      call('HSET', key('status', id), 'error_code', 'JOB_TIMEOUT')
      note(id, became, holder, 'JOB_TIMEOUT', counted(id), lease[5])
    else
      -- That its worker was revoked is not the job's fault.
      local code, detail = 'LEASE_EXPIRED', 'lease expired: worker ' .. holder .. ' went silent'
      if lease[4] then code, detail = 'WORKER_REVOKED', 'worker ' .. holder .. ' was revoked' end
      call('HSET', key('status', id), 'error_code', code)
      if lease[4] and back(id, detail, ARGV[4], ARGV[3], ARGV[7]) then
        note(id, 'queued', holder, code, counted(id), lease[5])
      else
        became = retry(id, detail, ARGV[4], ARGV[3], 7)
        note(id, became, holder, code, counted(id), lease[5])
      end
    end
  end
end
return done
