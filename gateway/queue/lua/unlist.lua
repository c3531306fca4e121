-- Takes jobs off the lists that are not on record any more: their status has
-- expired.
--
-- ARGV  1 'ids', and then ids
--       1 the list; its oldest entries are looked at   2 how many entries to pass over   3 how many to look at
--       4 those created up to here, in unix ms
-- Returns {entries looked at, entries dropped}
local ids = {}
if ARGV[1] == 'ids' then
  for i = 2, #ARGV do ids[#ids + 1] = ARGV[i] end
else
  local page = redis.pcall('ZRANGE', ARGV[1], ARGV[2], ARGV[2] + ARGV[3] - 1, 'WITHSCORES')
  if page.err then return {0, 0} end -- somebody else has written there; the other lists have their turn
  for i = 1, #page, 2 do
    if tonumber(page[i + 1]) > tonumber(ARGV[4]) then break end
    ids[#ids + 1] = page[i]
  end
end
local gone = {}
for _, id in ipairs(ids) do
  if call('EXISTS', key('status', id)) == 0 then gone[#gone + 1] = id end
end
if #gone > 0 then
  for _, list in ipairs(all_lists) do redis.pcall('ZREM', list, unpack(gone)) end
end
return {#ids, #gone}
