-- current returns the status word, the progress and the error on record for a
-- job, or false, 0 and '' when there is none. A value that is not our JSON counts
-- as none: the key is a public contract, so anyone may have written there. What
-- counts is what parseDocument counts: a JSON object of 32 KiB at most with a status
-- word.
local function current(job)
  local raw = redis.pcall('GET', job)
  if type(raw) ~= 'string' or #raw > 32768 then return false, 0, '' end
  local ok, doc = pcall(cjson.decode, raw)
  if not ok or type(doc) ~= 'table' or type(doc.status) ~= 'string' or doc.status == '' then return false, 0, '' end
  local progress = tonumber(doc.progress) or 0
  return doc.status, math.floor(progress), type(doc.error_msg) == 'string' and doc.error_msg or ''
end

local function terminal(status)
  return status == 'completed' or status == 'failed' or status == 'canceled'
end

-- born returns when a job was first heard of, in milliseconds: as it is on record,
-- or else at. The other results are its kind, '' if that is not on record, and when its attempt began and the
-- step that it is in, if they are.
local function born(detail, at)
  local t = redis.call('HMGET', detail, 'created_at', 'submitted_at', 'started_at', 'step', 'kind')
  local began = tonumber(t[3])
  return tonumber(t[1]) or tonumber(t[2]) or began or tonumber(at), t[5] or '', began, t[4]
end

-- noToken is the token of a job that was queued again: no worker holds it, none
-- has died with it, and an attempt from before cannot take its claim back.
local noToken = '-'

-- lapsed before a token marks a claim that was taken away from a silent worker: its
-- token is no longer good, and it still counts as a crash unless that worker gives
-- the claim back.
local lapsed = '!'

-- now is the server's clock in milliseconds: one clock for all workers. It is read once a call.
local clock
local function now()
  if not clock then
    local t = redis.call('TIME')
    clock = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  return clock
end

-- owns reports whether a claim is token's. When Redis has lost what it wrote
-- last (all of its data, or a failover's worth), the claim on record knows
-- nothing of this attempt: the attempt then takes its claim back, unless the job
-- has ended in the meantime. The second result is then true as well.
local function owns(job, claim, token, attempt, crashes, failures)
  local c = redis.call('HMGET', claim, 'token', 'attempts')
  if c[1] then return c[1] == token end
  if (tonumber(c[2]) or 0) >= tonumber(attempt) or terminal((current(job))) then return false end
  redis.call('HSET', claim, 'token', token, 'attempts', attempt, 'crashes', crashes, 'failures', failures)
  return true, true
end

-- keepParams records what a job is asked to do, and keeps what is on record where text is ''.
local function keepParams(params, text, ttl)
  if text ~= '' then redis.call('SET', params, text, 'EX', ttl) else redis.call('EXPIRE', params, ttl) end
end

-- unclaim gives a claim back: what there is to say of an attempt goes, the counts stay.
local function unclaim(claim)
  redis.call('HDEL', claim, 'token', 'until', 'seen', 'worker', 'queue', 'ack')
end

-- keep records whose a claim is, how others can hand back its lease, and more fields.
local function keep(claim, worker, queue, ack, ...)
  if ack ~= '' then
    redis.call('HSET', claim, 'worker', worker, 'queue', queue, 'ack', ack, ...)
  else
    redis.call('HSET', claim, 'worker', worker, 'queue', queue, ...)
    redis.call('HDEL', claim, 'ack')
  end
end

-- countCrash remembers the token of an attempt that counts as a crash.
local function countCrash(claim, token)
  local crashed = redis.call('HGET', claim, 'crashed')
  redis.call('HSET', claim, 'crashed', (crashed and crashed .. ' ' or '') .. token:gsub('^' .. lapsed, ''))
end

-- uncountCrash no longer counts an attempt as a crash and reports whether it was counted.
local function uncountCrash(claim, detail, token)
  local c = redis.call('HMGET', claim, 'crashed', 'crashes')
  local rest, found = {}, false
  for t in (c[1] or ''):gmatch('%S+') do
    if t == token then found = true else rest[#rest + 1] = t end
  end
  if not found then return false end
  local crashes = math.max(0, (tonumber(c[2]) or 0) - 1)
  redis.call('HSET', claim, 'crashed', table.concat(rest, ' '), 'crashes', crashes)
  if crashes > 0 then redis.call('HSET', detail, 'crashes', crashes) else redis.call('HDEL', detail, 'crashes') end
  return true
end

-- plain returns a text without what separates the fields of past attempts, and not longer than 200 bytes.
local function plain(text) return (text:gsub('%c', ' '):sub(1, 200)) end

-- remember adds an attempt that is over to the newest 10 of its job. A job that succeeds at its first has none.
local function remember(detail, number, outcome, why, ended)
  local d = redis.call('HMGET', detail, 'started_at', 'worker', 'past')
  local lines = {}
  for line in (d[3] or ''):gmatch('[^\n]+') do lines[#lines + 1] = line end
  if #lines >= 10 then table.remove(lines, 1) end
  lines[#lines + 1] = table.concat({number, d[1] or '', string.format('%d', tonumber(ended) or now()), outcome, plain(d[2] or ''), plain(why)}, '\t')
  redis.call('HSET', detail, 'past', table.concat(lines, '\n'))
end

-- correct says that an attempt was handed back that was taken for a crash.
local function correct(detail, number, why)
  local lines = {}
  for line in (redis.call('HGET', detail, 'past') or ''):gmatch('[^\n]+') do
    local n, began, ended, outcome, worker = line:match('^(%d+)\t(%d*)\t(%d*)\t(%a+)\t([^\t]*)\t')
    if n == number and outcome == 'crashed' then
      line = table.concat({n, began, ended, 'handed back', worker, plain(why)}, '\t')
    end
    lines[#lines + 1] = line
  end
  if #lines > 0 then redis.call('HSET', detail, 'past', table.concat(lines, '\n')) end
end

-- close deletes what only a job that has not ended needs, and adds fields to the details. The
-- outcome counts there, so that one that was recorded twice would show.
local function close(claim, cancel, detail, ttl, ...)
  redis.call('DEL', claim, cancel)
  redis.call('HINCRBY', detail, 'outcomes', 1)
  redis.call('HSET', detail, 'finished_at', now(), ...)
  redis.call('HDEL', detail, 'step', 'next_at')
  redis.call('EXPIRE', detail, ttl)
end

-- put writes a status document. Its text comes in two halves, before and after
-- the number of the progress, so that a script can keep the number on record.
local function put(job, head, progress, tail, ttl)
  redis.call('SET', job, head .. string.format('%d', progress) .. tail, 'EX', ttl)
end

-- finish_canceled records the end of a job that no worker runs any more.
local function finish_canceled(job, claim, cancel, detail, head, progress, tail, ttl)
  put(job, head, progress, tail, ttl)
  close(claim, cancel, detail, ttl)
end
