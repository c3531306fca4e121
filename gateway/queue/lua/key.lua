-- What every script begins with: the names of a job's keys. Ids that a script
-- learns from the queue name keys that its caller could not declare; so these
-- scripts need one Redis server, not a cluster.
local function key(name, id) return 'zpe:' .. name .. ':' .. id end
local call = redis.call
-- Each kind of jobs has a queue and dead letters of its own: 'queue' and 'dlq'. Those of
-- kind zpe have no kind in their name. The other kinds that have any are in a set, so
-- that nobody needs to look at those that have none.
local function builtin(kind) return not kind or kind == '' or kind == 'zpe' end
local function kind_of(kind) return builtin(kind) and 'zpe' or kind end
local function of(name, kind) return builtin(kind) and 'zpe:' .. name or 'zpe:' .. name .. ':' .. kind end
local function put(command, name, kind, id)
  call(command, of(name, kind), id)
  if not builtin(kind) then call('SADD', 'zpe:' .. name .. '_kinds', kind) end
end
-- took is called when something was taken from such a list: it may be empty now.
local function took(name, kind)
  if not builtin(kind) and call('EXISTS', of(name, kind)) == 0 then call('SREM', 'zpe:' .. name .. '_kinds', kind) end
end
