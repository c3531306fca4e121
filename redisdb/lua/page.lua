-- Reads a part of sorted sets, as if they were one, from the highest score down and within
-- one score from the last member up: the entries that come after a place, whether there is
-- one at that place or not. Within one score the place is searched by halves, so that any
-- number may share one.
--
-- KEYS  the sets
-- ARGV  1 score and 2 member of the place, member '' for all below the score   3 entries of
--       each set at most   4 a score, and 5 entries at most if the last of those is below it
-- Returns {member, score, …} of one set after the other, or an error if the only one is none

-- Redis orders members of one score by their bytes, Lua by the locale.
local function below(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = a:byte(i), b:byte(i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

local call = redis.call
local function read(set)
  local high = call('ZCOUNT', set, ARGV[1], '+inf')
  local low = ARGV[2] == '' and high or call('ZCOUNT', set, '(' .. ARGV[1], '+inf')
  while low < high do
    local middle = math.floor((low + high) / 2)
    if below(call('ZREVRANGE', set, middle, middle)[1], ARGV[2]) then high = middle else low = middle + 1 end
  end
  local page = call('ZREVRANGE', set, low, low + ARGV[3] - 1, 'WITHSCORES')
  if #page > 0 and tonumber(page[#page]) < tonumber(ARGV[4]) then
    page = call('ZREVRANGE', set, low, low + ARGV[5] - 1, 'WITHSCORES')
  end
  return page
end

if #KEYS == 1 then return read(KEYS[1]) end
local found = {}
for _, set in ipairs(KEYS) do
  if type(redis.pcall('ZCARD', set)) == 'number' then -- otherwise another program has written there, which hides no other set
    for _, entry in ipairs(read(set)) do found[#found + 1] = entry end
  end
end
return found
