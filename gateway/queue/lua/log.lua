-- Adds lines to what a job has written, under a lease on it.
--
-- KEYS  3 zpe:lease:ID   4 zpe:status:ID   5 zpe:log:ID
-- ARGV  5 lease id   6 kind   7 now in unix ms   8 ttl of the log in ms   9 how many lines are kept
--      10 lines under this lease before these   11… the lines, at most 1000
-- Returns {'ok'} | {'lost'} | {'unknown'}
local lease = call('HMGET', KEYS[3], 'worker_id', 'lease_id', 'kind', 'logged')
if lease[1] ~= worker or lease[2] ~= ARGV[5] then
  if call('EXISTS', KEYS[4]) == 0 then return {'unknown'} end
  return {'lost'}
end
if kind_of(lease[3]) ~= kind_of(ARGV[6]) then return {'unknown'} end
local last = redis.pcall('LINDEX', KEYS[5], -1)
if type(last) == 'table' and last.err then return {'ok'} end -- somebody else's key has the log's name
-- A line is "MS-N TEXT": its time, and its number among all that there were. Those of an earlier call
-- whose answer was lost are passed over.
local before, lines = tonumber(ARGV[10]), {}
local ms, n = string.match(last or '', '^(%d+)-(%d+) ')
ms, n = math.max(tonumber(ms) or 0, tonumber(ARGV[7])), tonumber(n) or 0
for i = 11 + math.max(0, (tonumber(lease[4] or nil) or 0) - before), #ARGV do
  n = n + 1
  lines[#lines + 1] = string.format('%.0f-%.0f ', ms, n) .. ARGV[i]
end
if #lines > 0 then
  call('RPUSH', KEYS[5], unpack(lines))
  call('LTRIM', KEYS[5], -tonumber(ARGV[9]), -1)
  call('PEXPIRE', KEYS[5], ARGV[8])
  call('HSET', KEYS[3], 'logged', string.format('%.0f', before + #ARGV - 10))
end
return {'ok'}
