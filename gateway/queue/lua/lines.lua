-- write adds lines to what a job has written under a lease on it. logged is how many lines of the lease are known,
-- before how many came before these, which are the arguments from first to last. It returns how many are known
-- then, nil if there were none.
--
-- A line is "MS-N TEXT": its time, and its number among all that there were. Those of an earlier call
-- whose answer was lost are passed over.
local function write(id, logged, before, first, last, now_ms, ttl, most)
  if last < first then return end
  local log = key('log', id)
  local newest = redis.pcall('LINDEX', log, -1)
  if type(newest) == 'table' and newest.err then return end -- somebody else's key has the log's name
  local ms, n = string.match(newest or '', '^(%d+)-(%d+) ')
  ms, n = math.max(tonumber(ms) or 0, tonumber(now_ms)), tonumber(n) or 0
  local lines = {}
  for i = first + math.max(0, (tonumber(logged or nil) or 0) - before), last do
    n = n + 1
    lines[#lines + 1] = string.format('%.0f-%.0f ', ms, n) .. ARGV[i]
  end
  if #lines == 0 then return end
  call('RPUSH', log, unpack(lines))
  if n > tonumber(most) then call('LTRIM', log, -tonumber(most), -1) end
  call('PEXPIRE', log, ttl)
  return before + last - first + 1
end
