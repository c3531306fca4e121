-- What becomes of a job whose attempt has ended without a result.
--
-- count counts a failed attempt: among those that its kind allows if own is set. What is
-- no number there counts as none before it.
local function count(id, own)
  if own then
    local n = redis.pcall('HINCRBY', key('status', id), 'failures', 1)
    if type(n) == 'number' then return n end
    call('HSET', key('status', id), 'failures', 1)
    return 1
  end
  local n = redis.pcall('INCR', key('retry_count', id))
  if type(n) == 'number' then return n end
  call('SET', key('retry_count', id), 1)
  return 1
end
-- counted returns how many attempts of a job were counted.
local function counted(id)
  return (tonumber(call('GET', key('retry_count', id)) or nil) or 0) + (tonumber(call('HGET', key('status', id), 'failures') or nil) or 0)
end
-- turn writes what a job is now, and keeps all that it needs for another ttl. It returns
-- the job's kind.
local function turn(id, word, detail, at, ttl)
  local was = known(id)
  become(was, id, word, detail, at, ttl)
  for _, name in ipairs({'payload', 'retry_count'}) do call('PEXPIRE', key(name, id), ttl) end
  return was[4]
end
-- deadletter ends a job as failed and puts it among the dead letters. It returns the word
-- for what it did.
local function deadletter(id, detail, at, ttl)
  local kind = turn(id, 'failed', detail, at, ttl)
  call('HINCRBY', key('status', id), 'outcomes', 1)
  put('LPUSH', 'dlq', kind, id)
  return 'dead'
end
-- retry delays a job, or dead-letters it when it has had all its retries. The arguments
-- after number base are when to run again after the 1st, 2nd, … failure.
local function retry(id, detail, at, ttl, base, own)
  local n = count(id, own)
  local run_at = ARGV[base + n]
  if not run_at then return deadletter(id, detail, at, ttl), n end
  turn(id, 'queued', detail, at, ttl)
  call('ZADD', 'zpe:delay', run_at, id)
  return 'delayed', n
end
-- back puts a job at the front of the queue and counts nothing: its turn has come
-- already. It returns false, and changes nothing, for a job that has come back as often
-- as it may: that must not run without end.
local function back(id, detail, at, ttl, most)
  if call('HINCRBY', key('status', id), 'came_back', 1) > tonumber(most) then return false end
  put('RPUSH', 'queue', turn(id, 'queued', detail, at, ttl), id)
  return true
end
-- finish_canceled ends a job that is to be canceled.
local function finish_canceled(id, at, ttl)
  become(known(id), id, 'failed', 'canceled', at, ttl, 'error_code', 'CANCELED')
  call('HINCRBY', key('status', id), 'outcomes', 1)
  call('DEL', key('payload', id), key('retry_count', id))
  return 'canceled'
end
-- stop ends a job that must not run again, because it is to be canceled or its time is
-- over. It returns the word for what it did, or nothing if the job may run again.
local function stop(id, timeout, at, ttl)
  local asked = call('HMGET', key('status', id), 'cancel_requested', 'timed_out')
  if asked[1] == '1' then return finish_canceled(id, at, ttl) end
  if asked[2] == '1' then
    local n = count(id)
    return deadletter(id, timeout, at, ttl), n
  end
end
-- remember keeps the lease that a job was taken from, so that its late result is
-- known for what it is.
local function remember(id, lease, worker, ttl)
  call('HSET', key('reaped', id), lease, worker)
  call('PEXPIRE', key('reaped', id), ttl)
end
