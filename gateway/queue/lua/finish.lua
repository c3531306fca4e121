-- Records results of jobs and ends their leases. What is on record stays: the
-- same content again from the lease that has won is no error, anything else is.
-- The result of a lease that was reaped is kept aside.
--
-- ARGV  1 now in unix seconds   2 now, RFC 3339   3 ttl of results in ms   4 ttl of late results in ms
--       5 now in unix ms   6 ttl of a log in ms   7 how many lines of it are kept
--       and of each call, after those of each.lua:
--       3 id   4 lease id   5 digest   6 result   7 summary   8 freqs   9 meta   10 kind
--       11 list of the artifacts, may be empty   12 how many there are
--       13 lines for the log under this lease before these   14 how many lines
--       then of each artifact its name, and size and SHA-256 as in artifact.lua; then the lines
-- Returns for each {'ok', when leased, when created} | {'again'} | {'differs'} | {'late'} | {'lost'} | {'unknown'}
-- | {'incomplete', name} | {'refused', why}
local at, kept = ARGV[2], ARGV[3]
local ended, finished = {}, {} -- ids of the jobs that have ended, those of each worker and all

-- missing returns the first artifact that has not arrived whole.
local function missing(e, id)
  for i = e + 15, e + 13 + 2 * ARGV[e + 12], 2 do
    if call('HGET', key('uploads', id .. ':' .. ARGV[e + 4]), ARGV[i]) ~= ARGV[i + 1] then return ARGV[i] end
  end
end

local function record(e, worker, id, status, kind)
  if ARGV[e + 11] ~= '' then call('SET', key('artifacts', id), ARGV[e + 11], 'PX', kept) end
  call('SET', key('result', id), ARGV[e + 6], 'PX', kept)
  if builtin(ARGV[e + 10]) then
    call('SET', key('summary', id), ARGV[e + 7], 'PX', kept)
    call('SET', key('freqs', id), ARGV[e + 8], 'PX', kept)
  end
  local fields = {'worker_id', worker, 'lease_id', ARGV[e + 4], 'digest', ARGV[e + 5], 'meta', ARGV[e + 9],
    'outcomes', (tonumber(status[9] or nil) or 0) + 1}
  if not builtin(ARGV[e + 10]) then
    status[4] = kind
    fields[11], fields[12] = 'kind', kind -- which may have been lost
  end
  become(status, id, 'finished', '', at, kept, unpack(fields))
  if status[10] or status[11] then call('HDEL', key('status', id), 'error_code', 'error_message', 'traceback', 'done', 'total') end
  call('DEL', key('lease', id), key('payload', id), key('retry_count', id), key('reaped', id), key('late', id), key('uploads', id .. ':' .. ARGV[e + 4]))
  ended[worker] = ended[worker] or {}
  table.insert(ended[worker], id)
  table.insert(finished, id)
end

local function finish(e, worker)
  local id = ARGV[e + 3]
  local status = call('HMGET', key('status', id), 'status', 'detail', 'created_at', 'kind', 'worker_id', 'lease_id', 'digest', 'leased_at',
    'outcomes', 'error_code', 'done')
  local lease = call('HMGET', key('lease', id), 'worker_id', 'lease_id', 'kind', 'logged')
  if lease[1] == worker and lease[2] == ARGV[e + 4] then
    if kind_of(lease[3]) ~= kind_of(ARGV[e + 10]) then return {'unknown'} end
    local lacks = missing(e, id)
    if lacks then return {'incomplete', lacks} end
    local lines = e + 15 + 2 * ARGV[e + 12]
    write(id, lease[4], tonumber(ARGV[e + 13]), lines, lines - 1 + ARGV[e + 14], ARGV[5], ARGV[6], ARGV[7])
    record(e, worker, id, status, lease[3])
    return {'ok', status[8] or '', status[3] or ''}
  end
  if not status[1] or kind_of(status[4]) ~= kind_of(ARGV[e + 10]) then return {'unknown'} end
  if status[1] == 'finished' and status[5] == worker and status[6] == ARGV[e + 4] then
    return {status[7] == ARGV[e + 5] and 'again' or 'differs'}
  end
  if status[1] ~= 'finished' and call('HGET', key('reaped', id), ARGV[e + 4]) == worker and not missing(e, id) then
    call('HSET', key('late', id), 'worker_id', worker, 'lease_id', ARGV[e + 4], 'digest', ARGV[e + 5], 'result', ARGV[e + 6],
      'summary', ARGV[e + 7], 'freqs', ARGV[e + 8], 'meta', ARGV[e + 9], 'received_at', at, 'artifacts', ARGV[e + 11])
    call('PEXPIRE', key('uploads', id .. ':' .. ARGV[e + 4]), ARGV[4])
    call('PEXPIRE', key('late', id), ARGV[4])
    return {'late'}
  end
  return {'lost'}
end

local answers = each(8, function(e) return 15 + 2 * ARGV[e + 12] + ARGV[e + 14] end, finish)
if #finished > 0 then call('ZREM', 'zpe:lease:index', unpack(finished)) end
for worker, ids in pairs(ended) do redis.pcall('SREM', key('worker_leases', worker), unpack(ids)) end
return answers
