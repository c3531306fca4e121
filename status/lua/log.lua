-- append adds lines to a job's log, a stream whose ids are their times, and
-- drops the oldest lines once all of them together exceed cap bytes. The bytes
-- are counted in field log_bytes of the claim.
local function append(log, claim, lines, cap, ttl)
  if #lines == 0 then return end
  local bytes = 0
  for _, line in ipairs(lines) do
    redis.call('XADD', log, '*', 'line', line)
    bytes = bytes + #line
  end
  local total = redis.call('HINCRBY', claim, 'log_bytes', bytes)
  while total > cap do
    local oldest = redis.call('XRANGE', log, '-', '+', 'COUNT', 100)
    if #oldest == 0 then break end
    local dropped = 0
    for _, entry in ipairs(oldest) do
      redis.call('XDEL', log, entry[1])
      dropped = dropped + #entry[2][2]
      if total - dropped <= cap then break end
    end
    total = redis.call('HINCRBY', claim, 'log_bytes', -dropped)
  end
  redis.call('EXPIRE', log, ttl)
end
