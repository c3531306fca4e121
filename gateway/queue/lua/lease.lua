-- Hands jobs to workers: out of a queue, under a lease and into the index at once. Of
-- several kinds that have one a worker gets that whose turn was the longest ago, and of a
-- kind the oldest. What is in the queue but not to be run (ended meanwhile, leased,
-- delayed, without a payload) is passed over, about 32 a script.
--
-- ARGV  1 now in unix seconds   2 now, RFC 3339   3 ttl of results in ms   4 jobs to promote at most
--       5 leases that a worker may hold   6 bytes of payloads after which a call gets no more
--       and of each call, after those of each.lua:
--       3 request id   4 ttl of the lease in seconds   5 end of the lease in unix seconds
--       6 how long the request id is known in ms   7 number of kinds   8 number of jobs wanted
--       9 1 if it runs jobs with several inputs   then the kinds that it runs, and as many new lease ids as jobs
-- Returns for each {'leases', {id, payload, lease id, ttl, expires at, retries, kind, failures}, …}
-- | {'none', worker} | {'again'} | {'off', worker} | {'full'} | {'refused', why}
local now, at, kept = ARGV[1], ARGV[2], ARGV[3]
local chunk = 16 -- entries that are taken out of a queue at once
local left = 32  -- entries that may still be passed over
local promoted = false
local given = {} -- ids of the jobs that this script has handed out

-- held_still returns the lease on a job if the worker holds it under this id.
local function held_still(id, lease_id, worker)
  local lease = call('HMGET', key('lease', id), 'worker_id', 'lease_id', 'expires_at', 'kind')
  local payload = call('GET', key('payload', id))
  if not payload or lease[1] ~= worker or lease[2] ~= lease_id then return nil end
  local seconds = tonumber(lease[3]) - tonumber(now)
  if seconds <= 0 then return nil end
  return {id, payload, lease[2], string.format('%.3f', seconds), lease[3], call('GET', key('retry_count', id)) or '0',
    lease[4] or '', lease[4] and call('HGET', key('status', id), 'failures') or '0'}
end

-- earlier returns what an earlier call with the same request id has got, as far as it is held:
-- the answer to that may have been lost. several is whether that has got more than one.
local function earlier(asked, worker)
  local was, got = call('HMGET', asked, 'job_id', 'lease_id', 'more'), {'leases'}
  if was[1] then
    got[2] = held_still(was[1], was[2], worker)
    for id, lease_id in string.gmatch(was[3] or '', '(%S+) (%S+)') do got[#got + 1] = held_still(id, lease_id, worker) end
  end
  return got, was[3]
end

-- room returns how many more leases a worker may hold, if that is fewer than wanted. What ended
-- without a result is still in the set, and is taken out only when that seems full.
local function room(held, worker, wanted)
  local free = tonumber(ARGV[5]) - call('SCARD', held)
  if free >= wanted then return wanted end
  for _, id in ipairs(call('SMEMBERS', held)) do
    local holder = redis.pcall('HGET', key('lease', id), 'worker_id')
    if holder ~= worker then call('SREM', held, id) end
  end
  return math.min(wanted, tonumber(ARGV[5]) - call('SCARD', held))
end

-- in_turn returns those of the kinds that have jobs, and the number of the last turn.
local function in_turn(kinds)
  local some, turns = {}, {}
  for _, kind in ipairs(kinds) do
    if call('EXISTS', of('queue', kind)) == 1 then some[#some + 1] = kind end
  end
  if #some > 1 then
    for i, turn in ipairs(call('ZMSCORE', 'zpe:turns', unpack(some))) do turns[some[i]] = tonumber(turn or nil) or 0 end
    table.sort(some, function(a, b)
      if turns[a] ~= turns[b] then return turns[a] < turns[b] end
      return a < b
    end)
  end
  local last = call('ZREVRANGE', 'zpe:turns', 0, 0, 'WITHSCORES')
  return some, tonumber(last[2] or nil) or 0
end

-- look reads what several entries need: the payload of entry i is at place 2i - 1 of texts, and how often it has run
-- behind it.
local function look(ids)
  local texts, leases = {}, {}
  for i, id in ipairs(ids) do texts[2 * i - 1], texts[2 * i], leases[i] = key('payload', id), key('retry_count', id), key('lease', id) end
  return {
    texts = call('MGET', unpack(texts)),
    leased = call('EXISTS', unpack(leases)) > 0, delays = call('ZMSCORE', 'zpe:delay', unpack(ids)),
  }
end

-- unfit reports whether a worker of call e cannot run a job with this payload: see wire/inputs.go.
local function unfit(e, kind, payload)
  return ARGV[e + 9] ~= '1' and not builtin(kind) and type(payload) == 'string' and string.sub(payload, 1, 10) == '{"input":['
end

-- grant hands one entry of a queue out, and returns nothing if it is not to be run.
local function grant(e, worker, id, kind, seen, i, lease_id)
  local status = redis.pcall('HMGET', key('status', id), 'status', 'detail', 'created_at', 'kind', 'first_leased_at', 'failures')
  local payload, retries = seen.texts[2 * i - 1], seen.texts[2 * i] or '0'
  if status.err then
    -- Somebody else's key has the job's name. People must look; the next job need not wait.
    put('LPUSH', 'dlq', kind, id)
  elseif (status[1] and (status[1] ~= 'queued' or kind_of(status[4]) ~= kind)) or given[id] or seen.delays[i]
      or (seen.leased and call('EXISTS', key('lease', id)) == 1) then
    -- a stale entry: the job is elsewhere
  elseif type(payload) ~= 'string' then
    deadletter(id, 'payload missing', at, kept)
  else
    given[id] = true
    local fields = {'worker_id', worker, 'leased_at', now, 'first_leased_at', status[5] or now,
      'attempt', (tonumber(retries) or 0) + (tonumber(status[6] or nil) or 0) + 1}
    if builtin(kind) then
      call('HSET', key('lease', id), 'worker_id', worker, 'lease_id', lease_id, 'expires_at', ARGV[e + 5], 'ttl', ARGV[e + 4])
    else
      call('HSET', key('lease', id), 'worker_id', worker, 'lease_id', lease_id, 'expires_at', ARGV[e + 5], 'ttl', ARGV[e + 4], 'kind', kind)
      fields[9], fields[10] = 'kind', kind -- which may have been lost
      status[4] = kind
    end
    become(status, id, 'started', '', at, kept, unpack(fields))
    call('PEXPIRE', key('payload', id), kept)
    if seen.texts[2 * i] then call('PEXPIRE', key('retry_count', id), kept) end
    return {id, payload, lease_id, ARGV[e + 4], ARGV[e + 5], retries, builtin(kind) and '' or kind, status[6] or '0'}
  end
end

-- keep writes down what a call has got.
local function keep(e, worker, got, asked, held, several)
  local index, ids, more = {}, {}, {}
  for i = 2, #got do
    local id = got[i][1]
    ids[#ids + 1] = id
    index[#index + 1] = ARGV[e + 5]
    index[#index + 1] = id
    if i > 2 then more[#more + 1] = id .. ' ' .. got[i][3] end
  end
  call('ZADD', 'zpe:lease:index', unpack(index))
  call('SADD', held, unpack(ids))
  call('PEXPIRE', held, kept)
  call('HSET', asked, 'job_id', ids[1], 'lease_id', got[2][3])
  if #more > 0 then call('HSET', asked, 'more', table.concat(more, ' ')) elseif several then call('HDEL', asked, 'more') end
  call('PEXPIRE', asked, ARGV[e + 6])
end

local function lease(e, worker)
  local asked, held = key('lease_req', worker .. ':' .. ARGV[e + 3]), key('worker_leases', worker)
  -- What an earlier call got counts even while no new job is handed out.
  local got, several = earlier(asked, worker)
  if #got > 1 then return got end
  if call('HGET', 'zpe:ops', 'dequeue_enabled') == '0' then return {'off', worker} end
  local kinds_n, wanted = tonumber(ARGV[e + 7]), tonumber(ARGV[e + 8])
  wanted = room(held, worker, wanted)
  if wanted <= 0 then return {'full'} end
  if not promoted then
    promote(now, ARGV[4])
    promoted = true
  end
  local kinds, turn = {unpack(ARGV, e + 10, e + 9 + kinds_n)}, 0
  if kinds_n > 1 then kinds, turn = in_turn(kinds) end
  local turns, bytes, met, aside = {}, 0, nil, {}
  while kinds[1] and left > 0 and #got <= wanted and bytes < tonumber(ARGV[6]) do
    local kind = kinds[1]
    local ids = call('RPOP', of('queue', kind), #kinds > 1 and 1 or math.min(chunk, wanted - #got + 1))
    took('queue', kind)
    if not ids then
      table.remove(kinds, 1)
      ids = {}
    end
    local seen = #ids > 0 and look(ids)
    for i, id in ipairs(ids) do
      if bytes >= tonumber(ARGV[6]) then
        for j = #ids, i, -1 do put('RPUSH', 'queue', kind, ids[j]) end
        break
      end
      local one = not unfit(e, kind, seen.texts[2 * i - 1]) and attempt(grant, e, worker, id, kind, seen, i, ARGV[e + 9 + kinds_n + #got])
      if one == false then
        aside[#aside + 1] = {kind, id}
        left = left - 1
        if kinds_n > 1 then table.insert(kinds, table.remove(kinds, 1)) end
      elseif one and not one.err then
        got[#got + 1] = one
        bytes = bytes + string.len(one[2])
        if kinds_n > 1 then
          turn = turn + 1
          turns[#turns + 1], turns[#turns + 2] = turn, kind
          table.insert(kinds, table.remove(kinds, 1)) -- its next turn comes after all others'
        end
      else
        met = met or one
        left = left - 1
      end
    end
  end
  -- Behind all others, so that the next call finds what is fit for its worker.
  for _, entry in ipairs(aside) do put('LPUSH', 'queue', entry[1], entry[2]) end
  if #turns > 0 then
    call('ZADD', 'zpe:turns', unpack(turns))
    call('PEXPIRE', 'zpe:turns', kept)
  end
  if #got > 1 then
    keep(e, worker, got, asked, held, several)
    return got
  end
  return met or (kinds[1] and #aside == 0 and {'again'} or {'none', worker})
end

return each(7, function(e) return 10 + tonumber(ARGV[e + 7]) + tonumber(ARGV[e + 8]) end, lease)
