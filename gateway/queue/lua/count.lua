-- Counts the jobs of a scope at one moment: of kind zpe, or of all other kinds.
--
-- ARGV  1 '1': of the other kinds   2 how many running jobs, and how many delayed ones, are looked at for their
--       kinds: where there are more, the numbers of these stand for all
-- Returns {jobs queued, started, finished, failed, canceled}, dead letters,
-- {kind, jobs queued, running, when the oldest was created in unix ms or '', …}, {field of the counts, number, …}
local others = ARGV[1] == '1'
local probe = others and '?' or 'zpe' -- any name but zpe
local function number(...)
  local n = redis.pcall(...)
  return type(n) == 'number' and n or 0
end
local function all(...)
  local found = redis.pcall(...)
  return found.err and {} or found
end

local states = {}
for i, word in ipairs({'queued', 'started', 'finished', 'failed'}) do states[i] = number('ZCARD', list_of(word, '', probe)) end
states[5] = number('ZCARD', list_of('failed', 'canceled', probe))
local counts = all('HGETALL', counts_of(probe))
if not others then
  local oldest = all('ZRANGE', list_of('queued', '', probe), 0, 0, 'WITHSCORES')
  return {states, number('LLEN', 'zpe:dlq'), {'zpe', states[1], states[2], oldest[2] or ''}, counts}
end

local dead = 0
for _, kind in ipairs(all('SMEMBERS', 'zpe:dlq_kinds')) do dead = dead + number('LLEN', of('dlq', kind)) end
local kinds, order = {}, {}
local function row(kind)
  if not kinds[kind] then
    kinds[kind] = {queued = 0, running = 0}
    order[#order + 1] = kind
  end
  return kinds[kind]
end
-- by_kind adds jobs, which some ids of them stand for, to what their kinds have.
local function by_kind(ids, total, what)
  local seen = {}
  for _, id in ipairs(ids) do
    local kind = redis.pcall('HGET', key('status', id), 'kind')
    if type(kind) == 'string' and not builtin(kind) then seen[kind] = (seen[kind] or 0) + 1 end
  end
  for kind, n in pairs(seen) do
    row(kind)[what] = row(kind)[what] + math.floor(n * math.max(1, total / math.max(1, #ids)) + 0.5)
  end
end
by_kind(all('ZREVRANGE', list_of('started', '', probe), 0, ARGV[2] - 1), states[2], 'running')
by_kind(all('ZRANGE', 'zpe:delay', 0, ARGV[2] - 1), number('ZCARD', 'zpe:delay'), 'queued')
for _, kind in ipairs(all('SMEMBERS', 'zpe:queue_kinds')) do
  local r = row(kind)
  r.queued = r.queued + number('LLEN', of('queue', kind))
  -- At the end of the queue may be some entries of jobs that are elsewhere.
  local last = all('LRANGE', of('queue', kind), -10, -1)
  for i = #last, 1, -1 do
    local job = redis.pcall('HMGET', key('status', last[i]), 'status', 'created_at')
    if job[1] == 'queued' and job[2] then
      r.oldest = born(job[2])
      break
    end
  end
end
local rows = {}
for _, kind in ipairs(order) do
  local r = kinds[kind]
  rows[#rows + 1] = kind
  rows[#rows + 1] = math.min(r.queued, states[1]) -- entries without a meaning count in the queues alone
  rows[#rows + 1] = r.running
  rows[#rows + 1] = r.oldest or ''
end
return {states, dead, rows, counts}
