-- promote moves jobs whose time has come from the delay set to the queues of their
-- kinds. It returns how many by kind.
local function promote(now, limit)
  local due, moved = call('ZRANGEBYSCORE', 'zpe:delay', '-inf', now, 'LIMIT', 0, limit), {}
  if #due > 0 then call('ZREM', 'zpe:delay', unpack(due)) end
  for _, id in ipairs(due) do
    local kind = redis.pcall('HGET', key('status', id), 'kind')
    kind = kind_of(type(kind) == 'string' and kind)
    put('LPUSH', 'queue', kind, id)
    moved[kind] = (moved[kind] or 0) + 1
  end
  return moved
end
