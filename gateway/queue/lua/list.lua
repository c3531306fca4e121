-- The lists of jobs, each in that of its state, by when they were created, in unix
-- ms. A canceled job has a state of its own here. All kinds but zpe share their lists.
local lists = {queued = 'zpe:jobs:queued', started = 'zpe:jobs:started', finished = 'zpe:jobs:finished',
  failed = 'zpe:jobs:failed', canceled = 'zpe:jobs:canceled'}
local others = {queued = 'zpe:other_jobs:queued', started = 'zpe:other_jobs:started', finished = 'zpe:other_jobs:finished',
  failed = 'zpe:other_jobs:failed', canceled = 'zpe:other_jobs:canceled'}
local all_lists = {}
for _, group in ipairs({lists, others}) do
  for _, list in pairs(group) do all_lists[#all_lists + 1] = list end
end
local function list_of(status, detail, kind)
  if status == 'failed' and detail == 'canceled' then status = 'canceled' end
  return (builtin(kind) and lists or others)[status or '']
end
-- born reads a moment in RFC 3339 and UTC as unix ms. It returns nothing for what is none.
local function born(text)
  local y, m, d, h, min, s, rest = string.match(text or '', '^(%d%d%d%d)%-(%d%d)%-(%d%d)T(%d%d):(%d%d):(%d%d)(.*)$')
  if not y then return nil end
  y, m = tonumber(y, 10), tonumber(m, 10) -- 10: some Lua takes 020 for sixteen
  if m < 3 then y, m = y - 1, m + 12 end -- the leap day is then the last of its year
  local days = 365 * y + math.floor(y / 4) - math.floor(y / 100) + math.floor(y / 400) + math.floor((153 * (m - 3) + 2) / 5) + tonumber(d, 10) - 719469
  local ms = string.sub((string.match(rest, '^%.(%d+)') or '') .. '000', 1, 3)
  return string.format('%.0f', ((days * 24 + tonumber(h, 10)) * 60 + tonumber(min, 10)) * 60000 + tonumber(s .. ms, 10))
end
-- leave takes a job off a list that is not the one where it goes, and returns where
-- it stood there. What somebody else has written to a list must not keep jobs from
-- moving, so an error here is none of the caller's.
local function leave(list, id, to)
  local score = redis.pcall('ZSCORE', list, id)
  if type(score) ~= 'string' then return nil end
  if list ~= to then redis.pcall('ZREM', list, id) end
  return score
end
-- enlist_now puts a job where it belongs in the lists: out of from, into to. If it is not
-- in from (its status had been lost, or a gateway from before there were lists has
-- moved it), it is looked for in all. One that was in none is as old as created says.
local function enlist_now(id, from, to, created, at)
  local score = from and leave(from, id, to)
  if not score and from ~= to then
    for _, list in ipairs(all_lists) do score = leave(list, id, to) or score end
  end
  redis.pcall('ZADD', to, score or born(created) or born(at), id)
end
-- tell puts jobs that have changed into the feed of their scope: zpe, or all other kinds. tally counts what came
-- and ended there, by the hour. What another program has written to these keys keeps no job from moving.
-- Feeds keep some 10 000 entries: see queue/feed.go. To trim costs more than all else here, so it is done in one
-- millisecond of a hundred.
local function feed_of(kind) return builtin(kind) and 'zpe:changes' or 'zpe:other_changes' end
local function counts_of(kind) return builtin(kind) and 'zpe:counts' or 'zpe:other_counts' end
local function tell_now(feed, ids)
  local at = redis.pcall('XADD', feed, '*', 'ids', ids)
  if type(at) == 'string' and string.find(at, '00-', 1, true) then redis.pcall('XTRIM', feed, 'MAXLEN', '~', 10000) end
end
local function tally_now(counts, field, n) redis.pcall('HINCRBY', counts, field, n) end
-- outcome returns the word by which the end of a job is counted, or nothing if it has not ended.
local function outcome(status, detail)
  if status == 'finished' then return 'succeeded' end
  if status == 'failed' then return detail == 'canceled' and 'canceled' or 'failed' end
end
-- enlist is enlist_now, or has move_all do it after together was called. A script about
-- several jobs moves them with fewer commands in this way.
local moves, told, tallied
local function together() moves, told, tallied = {}, {}, {} end
local function tell(kind, id)
  local feed = feed_of(kind)
  if not moves then return tell_now(feed, id) end
  told[feed] = told[feed] and told[feed] .. ' ' .. id or id
end
local function tally(kind, word, at)
  local counts, field = counts_of(kind), string.sub(at, 1, 13) .. ' ' .. word
  if not moves then return tally_now(counts, field, 1) end
  tallied[counts] = tallied[counts] or {}
  tallied[counts][field] = (tallied[counts][field] or 0) + 1
end
local function enlist(id, from, to, created, at)
  if not moves then return enlist_now(id, from, to, created, at) end
  moves[#moves + 1] = {id = id, from = from, to = to, created = created, at = at}
end
local function move_all()
  local pairs_of, order = {}, {}
  for _, m in ipairs(moves) do
    local way = (m.from or '') .. '>' .. m.to
    if not pairs_of[way] then
      pairs_of[way] = {}
      order[#order + 1] = way
    end
    table.insert(pairs_of[way], m)
  end
  moves = nil
  for _, way in ipairs(order) do
    local some = pairs_of[way]
    local from, to, ids = some[1].from, some[1].to, {}
    for i, m in ipairs(some) do ids[i] = m.id end
    local scores = from and from ~= to and #ids > 1 and redis.pcall('ZMSCORE', from, unpack(ids))
    local moved, add = {}, {}
    for i, m in ipairs(some) do
      local score = scores and not scores.err and scores[i]
      if score then
        moved[#moved + 1] = m.id
        add[#add + 1] = score
        add[#add + 1] = m.id
      else
        enlist_now(m.id, m.from, m.to, m.created, m.at)
      end
    end
    if #moved > 0 then
      redis.pcall('ZREM', from, unpack(moved))
      redis.pcall('ZADD', to, unpack(add))
    end
  end
  for feed, ids in pairs(told) do tell_now(feed, ids) end
  for counts, fields in pairs(tallied) do
    for field, n in pairs(fields) do tally_now(counts, field, n) end
  end
end
-- known reads what become must know of a job, for those that have not read it yet.
local function known(id) return call('HMGET', key('status', id), 'status', 'detail', 'created_at', 'kind') end
-- become makes a job something else: its status, its place in the lists and how
-- long it is kept. It is counted if it ends, and told to those who read the feed. Every script that changes a status does it by this. was has the
-- status, the detail, the time of creation and the kind until now. More fields of the
-- status may follow.
local function become(was, id, word, detail, at, ttl, ...)
  local hash = key('status', id)
  call('HSET', hash, 'status', word, 'detail', detail, 'updated_at', at, ...)
  call('PEXPIRE', hash, ttl)
  enlist(id, list_of(was[1], was[2], was[4]), list_of(word, detail, was[4]), was[3], at)
  tell(was[4], id)
  local how = outcome(word, detail)
  if how and how ~= outcome(was[1], was[2]) then tally(was[4], how, at) end
end
