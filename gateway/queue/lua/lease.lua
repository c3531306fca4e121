-- Hands a job to a worker: out of a queue, under a lease and into the index at once. Of
-- several kinds that have one it takes that whose turn was the longest ago, and of a
-- kind the oldest. What is in the queue but not to be run (ended meanwhile, leased,
-- delayed, without a payload) is passed over, 32 at a time.
--
-- KEYS  3 zpe:queue   4 zpe:delay   5 zpe:lease:index   6 zpe:ops
-- ARGV  5 new lease id   6 request id   7 ttl of the lease in seconds
--       8 end of the lease in unix seconds   9 ttl of results in ms
--      10 now, RFC 3339   11 jobs to promote at most
--      12 how long the request id is known in ms   13 leases that a worker may hold
--      14… the kinds that it runs
-- Returns {'lease', id, payload, lease id, ttl, expires at, retries, kind, failures} | {'none', worker} | {'again'} | {'off', worker} | {'full'}

-- The answer to an earlier call may have been lost. What it got counts even while
-- no new job is handed out.
local asked = key('lease_req', worker .. ':' .. ARGV[6])
local earlier = call('HMGET', asked, 'job_id', 'lease_id')
if earlier[1] then
  local id = earlier[1]
  local lease = call('HMGET', key('lease', id), 'worker_id', 'lease_id', 'expires_at', 'kind')
  local payload = call('GET', key('payload', id))
  if payload and lease[1] == worker and lease[2] == earlier[2] then
    local left = tonumber(lease[3]) - tonumber(ARGV[3])
    if left > 0 then
      return {'lease', id, payload, lease[2], string.format('%.3f', left), lease[3],
        call('GET', key('retry_count', id)) or '0', lease[4] or '', lease[4] and call('HGET', key('status', id), 'failures') or '0'}
    end
  end
end
if call('HGET', KEYS[6], 'dequeue_enabled') == '0' then return {'off', worker} end

-- What ended since is still in the set, and is taken out only when that seems full.
local held = key('worker_leases', worker)
if call('SCARD', held) >= tonumber(ARGV[13]) then
  for _, id in ipairs(call('SMEMBERS', held)) do
    local holder = redis.pcall('HGET', key('lease', id), 'worker_id')
    if holder ~= worker then call('SREM', held, id) end
  end
  if call('SCARD', held) >= tonumber(ARGV[13]) then return {'full'} end
end

promote(ARGV[3], ARGV[11])
local kinds, turns = {ARGV[14]}, {}
if #ARGV > 14 then
  kinds = {}
  for i = 14, #ARGV do
    if call('EXISTS', of('queue', ARGV[i])) == 1 then kinds[#kinds + 1] = ARGV[i] end
  end
  if #kinds > 1 then
    for i, turn in ipairs(call('ZMSCORE', 'zpe:turns', unpack(kinds))) do turns[kinds[i]] = tonumber(turn or nil) or 0 end
    table.sort(kinds, function(a, b)
      if turns[a] ~= turns[b] then return turns[a] < turns[b] end
      return a < b
    end)
  end
end
-- next_entry takes the next entry out of the queues.
local at = 1
local function next_entry()
  while kinds[at] do
    local id = call('RPOP', of('queue', kinds[at]))
    took('queue', kinds[at])
    if id then return id, kinds[at] end
    at = at + 1
  end
end

for _ = 1, 32 do
  local id, kind = next_entry()
  if not id then return {'none', worker} end
  local status = redis.pcall('HMGET', key('status', id), 'status', 'detail', 'created_at', 'kind', 'first_leased_at', 'failures')
  local payload = redis.pcall('GET', key('payload', id))
  if status.err then
    -- Somebody else's key has the job's name. People must look; the next job need not wait.
    put('LPUSH', 'dlq', kind, id)
  elseif (status[1] and (status[1] ~= 'queued' or kind_of(status[4]) ~= kind)) or call('EXISTS', key('lease', id)) == 1
      or call('ZSCORE', KEYS[4], id) then
    -- a stale entry: the job is elsewhere
  elseif type(payload) ~= 'string' then
    deadletter(id, 'payload missing', ARGV[10], ARGV[9])
  else
    call('HSET', key('lease', id), 'worker_id', worker, 'lease_id', ARGV[5], 'expires_at', ARGV[8], 'ttl', ARGV[7])
    if not builtin(kind) then
      call('HSET', key('lease', id), 'kind', kind)
      call('HSET', key('status', id), 'kind', kind) -- which may have been lost
      status[4] = kind
    end
    if #ARGV > 14 then
      local last = call('ZREVRANGE', 'zpe:turns', 0, 0, 'WITHSCORES')
      call('ZADD', 'zpe:turns', (tonumber(last[2] or nil) or 0) + 1, kind)
      call('PEXPIRE', 'zpe:turns', ARGV[9])
    end
    call('ZADD', KEYS[5], ARGV[8], id)
    local retries = call('GET', key('retry_count', id)) or '0'
    become(status, id, 'started', '', ARGV[10], ARGV[9], 'worker_id', worker, 'leased_at', ARGV[3],
      'first_leased_at', status[5] or ARGV[3], 'attempt', (tonumber(retries) or 0) + (tonumber(status[6] or nil) or 0) + 1)
    call('PEXPIRE', key('payload', id), ARGV[9])
    call('PEXPIRE', key('retry_count', id), ARGV[9])
    call('SADD', held, id)
    call('PEXPIRE', held, ARGV[9])
    call('HSET', asked, 'job_id', id, 'lease_id', ARGV[5])
    call('PEXPIRE', asked, ARGV[12])
    return {'lease', id, payload, ARGV[5], ARGV[7], ARGV[8], retries, builtin(kind) and '' or kind, status[6] or '0'}
  end
end
return {'again'}
