-- Adds lines to what jobs have written, under leases on them.
--
-- ARGV  1 now in unix seconds   2 now in unix ms   3 ttl of a log in ms   4 how many lines of it are kept
--       and of each call, after those of each.lua:
--       3 id   4 lease id   5 kind   6 lines under this lease before these   7 how many lines   8… the lines, at most 1000
-- Returns for each {'ok'} | {'lost'} | {'unknown'} | {'refused', why}
local function log(e, worker)
  local id = ARGV[e + 3]
  local lease = call('HMGET', key('lease', id), 'worker_id', 'lease_id', 'kind', 'logged')
  if lease[1] ~= worker or lease[2] ~= ARGV[e + 4] then
    if call('EXISTS', key('status', id)) == 0 then return {'unknown'} end
    return {'lost'}
  end
  if kind_of(lease[3]) ~= kind_of(ARGV[e + 5]) then return {'unknown'} end
  local known = write(id, lease[4], tonumber(ARGV[e + 6]), e + 8, e + 7 + ARGV[e + 7], ARGV[2], ARGV[3], ARGV[4])
  if known then call('HSET', key('lease', id), 'logged', string.format('%.0f', known)) end
  return {'ok'}
end
return each(5, function(e) return 8 + ARGV[e + 7] end, log)
