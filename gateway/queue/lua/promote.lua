-- promote moves jobs whose time has come from the delay set to the queue.
local function promote(now, limit)
  local due = call('ZRANGEBYSCORE', 'zpe:delay', '-inf', now, 'LIMIT', 0, limit)
  if #due > 0 then
    call('ZREM', 'zpe:delay', unpack(due))
    call('LPUSH', 'zpe:queue', unpack(due))
  end
  return #due
end
