-- Reads a part of the lists of jobs, as if they were one, the newest first: by when
-- jobs were created, then by id, both descending.
--
-- KEYS  the lists
-- ARGV  1 when the job before the first was created, in unix ms   2 its id; empty for all before then
--       3 how many of each list at most
-- Returns {id, when created, …} of one list after the other, or an error if the only one is none

-- Redis orders members of one score by their bytes, Lua by the locale.
local function below(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

local found = {}
local try = #KEYS > 1 and redis.pcall or call
for _, list in ipairs(KEYS) do
  if type(try('ZCARD', list)) == 'number' then -- otherwise somebody else has written there, which hides no other list
    -- Any number may have come at one moment; the place among them is between these two.
    local low, high = call('ZCOUNT', list, '(' .. ARGV[1], '+inf'), call('ZCOUNT', list, ARGV[1], '+inf')
    while low < high do
      local middle = math.floor((low + high) / 2)
      if below(call('ZREVRANGE', list, middle, middle)[1], ARGV[2]) then high = middle else low = middle + 1 end
    end
    for _, entry in ipairs(call('ZREVRANGE', list, low, low + ARGV[3] - 1, 'WITHSCORES')) do found[#found + 1] = entry end
  end
end
return found
