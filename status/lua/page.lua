-- Reads a page of an index, from the highest score down and within one score from
-- the last id up: the entries that come after a place, whether there is an entry
-- at that place or not. Within one score the place is searched by halves, so that
-- any number of jobs may share one.
--
-- KEYS  1 index
-- ARGV  1 score and 2 id of the place, id '' for all below the score   3 entries at most
--       4 a score, and 5 entries at most if the last of those is below it
-- Returns {id, score, …}
--
-- Redis orders ids by their bytes; < would order them as the server's locale does.
local function less(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = a:byte(i), b:byte(i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

local first
if ARGV[2] == '' then
  first = redis.call('ZCOUNT', KEYS[1], ARGV[1], '+inf')
else
  first = redis.call('ZCOUNT', KEYS[1], '(' .. ARGV[1], '+inf')
  local low, high = 0, redis.call('ZCOUNT', KEYS[1], ARGV[1], ARGV[1])
  while low < high do
    local middle = math.floor((low + high) / 2)
    local id = redis.call('ZREVRANGE', KEYS[1], first + middle, first + middle)[1]
    if less(id, ARGV[2]) then high = middle else low = middle + 1 end
  end
  first = first + low
end
local page = redis.call('ZREVRANGE', KEYS[1], first, first + ARGV[3] - 1, 'WITHSCORES')
if #page > 0 and tonumber(page[#page]) < tonumber(ARGV[4]) then
  page = redis.call('ZREVRANGE', KEYS[1], first, first + ARGV[5] - 1, 'WITHSCORES')
end
return page
