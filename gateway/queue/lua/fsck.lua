-- Looks at everything there is about one job at one moment, says what is not as it
-- should be, and repairs it if told to.
--
-- KEYS  1 zpe:queue   2 zpe:delay   3 zpe:lease:index   4 zpe:dlq
-- ARGV  1 id   2 '1': repair   3 now, RFC 3339   4 ttl of results in ms
--       5 how to look in the queue: 'all' of it, both 'ends', or '' not at all   6 how far to look from either end
--       7 '1': look among the dead letters   8 ttl of what is kept of a lease in ms
--       9 the kind of the queue or the dead letters that the job was found in, may be empty
--      10… when to run again, in unix seconds, after the 1st, 2nd, … failure
-- Returns {kind, detail, what was done or '', …}, three a finding
local id, repair, at, ttl = ARGV[1], ARGV[2] == '1', ARGV[3], ARGV[4]
local found = {}
local function note(kind, detail, done)
  found[#found + 1] = kind
  found[#found + 1] = detail
  found[#found + 1] = repair and done or ''
end

local status = redis.pcall('HMGET', key('status', id), 'status', 'worker_id', 'detail', 'created_at', 'kind')
local payload = call('EXISTS', key('payload', id)) == 1
local lease = redis.pcall('HMGET', key('lease', id), 'worker_id', 'lease_id', 'expires_at', 'kind')
if status.err or lease.err then
  return {'wrong type', status.err or lease.err, ''}
end
-- what a person reads of its state, where status has a word of its own
local shown = ({started = 'running', finished = 'succeeded'})[status[1]] or status[1]
if status[1] == 'failed' and status[3] == 'canceled' then shown = 'canceled' end
local kind = status[5] or lease[4] or (not status[1] and ARGV[9])
local queue, dlq = of('queue', kind), of('dlq', kind)
local state, leased = status[1], call('EXISTS', key('lease', id)) == 1
local score, delayed = call('ZSCORE', KEYS[3], id), call('ZSCORE', KEYS[2], id)

-- How often it is in the queue. Entries move only towards the ends.
local entries = 0
if ARGV[5] == 'all' then
  entries = #call('LPOS', queue, id, 'COUNT', 0)
elseif ARGV[5] == 'ends' then
  if call('LPOS', queue, id, 'MAXLEN', ARGV[6]) or call('LPOS', queue, id, 'RANK', -1, 'MAXLEN', ARGV[6]) then
    entries = 1
  end
end
local letters = ARGV[7] == '1' and #call('LPOS', dlq, id, 'COUNT', 2) or 0

-- with_kind writes the kind again, which a lost status has taken with it.
local function with_kind()
  if not builtin(kind) and not status[5] then call('HSET', key('status', id), 'kind', kind) end
end
local function set(word, detail)
  with_kind()
  become(known(id), id, word, detail, at, ttl)
end
local function no_entry()
  if not repair then return end
  call('LREM', queue, 0, id)
  took('queue', kind)
end
local function no_delay() if repair then call('ZREM', KEYS[2], id) end end
local function no_dead_letter()
  if not repair then return end
  call('LREM', dlq, 0, id)
  took('dlq', kind)
end
local function no_lease()
  if not repair then return end
  if lease[1] and lease[2] then remember(id, lease[2], lease[1], ARGV[8]) end
  call('DEL', key('lease', id))
  call('ZREM', KEYS[3], id)
end

-- places looks where the job is. What is found wrong with its status is repaired by
-- writing it again, which puts the job into the right lists, too.
local changed = false
local function places()
  -- Among the dead letters is what has failed, once.
  if letters > 0 and state and state ~= 'failed' then
    no_dead_letter()
    note('dead letter of a job that has not failed', 'it is ' .. shown, 'removed from the dead letters')
  elseif letters > 0 and not state and not payload then
    no_dead_letter()
    note('dead letter without a job', 'its status and payload have expired', 'removed from the dead letters')
  elseif letters > 0 and not state then
    changed = true
    if repair then set('failed', 'status was missing') end
    note('status missing', 'it is a dead letter', 'status is failed')
    state = 'failed'
  elseif letters > 1 then
    if repair then
      no_dead_letter()
      put('LPUSH', 'dlq', kind, id)
    end
    note('dead letter twice', 'it is among the dead letters more than once', 'one is left')
  end

  -- What has ended is nowhere else.
  if state == 'finished' or state == 'failed' then
    if leased then
      no_lease()
      note('lease of an ended job', 'it is ' .. shown .. '; worker ' .. (lease[1] or '?'), 'lease deleted')
    elseif score then
      if repair then call('ZREM', KEYS[3], id) end
      note('index without lease', 'it is ' .. shown, 'removed from the index')
    end
    if delayed then
      no_delay()
      note('stale entry', 'in zpe:delay; it is ' .. shown, 'removed')
    end
    if entries > 0 then
      no_entry()
      note('stale entry', 'in ' .. queue .. '; it is ' .. shown, 'removed')
    end
    if state == 'finished' and call('EXISTS', key('result', id)) == 0 then
      changed = true
      if repair then deadletter(id, 'result is missing', at, ttl) end
      note('finished without result', 'nothing is kept under ' .. key('result', id), 'buried')
    end
    return
  end
  if state and state ~= 'queued' and state ~= 'started' then
    note('status unknown', 'it is ' .. state, '')
    return
  end

  -- A lease decides: its holder runs the job, whatever the status says.
  if leased then
    if state ~= 'started' then
      changed = true
      if repair then
        set('started', 'status was ' .. (state or 'missing'))
        if lease[1] then call('HSET', key('status', id), 'worker_id', lease[1]) end
      end
      note(state and 'lease of a job that is not started' or 'status missing', 'worker ' .. (lease[1] or '?'), 'status is started')
    end
    local ends = tonumber(lease[3])
    if not lease[1] or not lease[2] or not ends then
      -- Nobody can report under it. The reaper takes it back.
      if repair then
        call('HSET', key('lease', id), 'worker_id', lease[1] or '?', 'lease_id', lease[2] or '?', 'expires_at', '0')
        call('ZADD', KEYS[3], '0', id)
      end
      note('lease without holder or end', 'worker ' .. (lease[1] or 'missing'), 'the reaper will take it back')
    elseif not score or tonumber(score) ~= ends then
      if repair then call('ZADD', KEYS[3], lease[3], id) end
      note(score and 'index differs from lease' or 'lease without index', 'it ends at ' .. lease[3] .. ', the index says ' .. (score or 'nothing'),
        'index follows the lease')
    end
    if delayed then
      no_delay()
      note('in two places', 'under a lease and in zpe:delay', 'removed from zpe:delay')
    end
    if entries > 0 then
      no_entry()
      note('stale entry', 'in ' .. queue .. '; it is under a lease', 'removed')
    end
    return
  end
  if score then
    if repair then call('ZREM', KEYS[3], id) end
    note('index without lease', 'it is ' .. (shown or 'not on record'), 'removed from the index')
  end

  if state == 'started' then
    changed = true
    local became
    if repair then
      no_delay()
      if entries > 0 then no_entry() end
      became = stop(id, 'job timeout; its lease was lost by the gateway', at, ttl)
      if became then call('HDEL', key('status', id), 'done', 'total', 'error_message', 'traceback') end -- of an earlier run
      if became == 'dead' then call('HSET', key('status', id), 'error_code', 'JOB_TIMEOUT') end
      became = became or retry(id, 'its lease was lost by the gateway', at, ttl, 9)
    end
    note('started without lease', 'worker ' .. (status[2] or '?'),
      became == 'canceled' and 'canceled, as somebody had asked' or 'counted as a failed run, it is ' .. (became or ''))
    return
  end

  -- Queued, or not on record although it is in a place of those that wait.
  if not state and not delayed and entries == 0 then return end
  if not payload then
    changed = true
    if repair then
      no_delay()
      if entries > 0 then no_entry() end
      with_kind()
      deadletter(id, 'payload missing', at, ttl)
    end
    note('payload missing', 'there is nothing to run', 'buried')
    return
  end
  if not state then
    changed = true
    if repair then set('queued', 'status was missing') end
    note('status missing', 'it waits', 'status is queued')
  end
  if delayed and entries > 0 then
    no_entry()
    note('in two places', 'in ' .. queue .. ' and zpe:delay', 'removed from ' .. queue)
  elseif entries > 1 then
    if repair then call('LREM', queue, entries - 1, id) end
    note('in the queue twice', 'it would run once', 'the oldest entry is left')
  elseif ARGV[5] ~= '' and not delayed and entries == 0 then
    if repair then
      put('LPUSH', 'queue', kind, id)
      call('PEXPIRE', key('status', id), ttl)
      call('PEXPIRE', key('payload', id), ttl)
    end
    note('queued without entry', 'neither in ' .. queue .. ' nor in zpe:delay', 'put into the queue')
  end
  return
end

-- listed looks at the lists. An entry of a job that has expired is left over; one
-- that has lost its status only is found by where it is.
local function listed()
  local own, here, wrong = list_of(state, status[3], kind), false, {}
  for _, list in ipairs(all_lists) do
    if type(redis.pcall('ZSCORE', list, id)) ~= 'string' then
      -- it is not in there
    elseif list == own then
      here = true
    else
      wrong[#wrong + 1] = list
    end
  end
  table.sort(wrong)
  local where = table.concat(wrong, ', ')
  if own and not here then
    if repair then enlist(id, nil, own, status[4], at) end
    note('not listed', 'it is ' .. shown .. ', and not in ' .. own, 'listed')
  elseif #wrong > 0 and (own or not payload) then
    if repair then
      for _, list in ipairs(wrong) do redis.pcall('ZREM', list, id) end
    end
    note(own and 'listed twice' or 'listed without a job', 'it is ' .. (shown or 'not on record') .. ', and in ' .. where, 'removed from there')
  end
end

places()
if not changed and (not state or lists[state]) then listed() end
return found
