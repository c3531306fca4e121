-- KEYS  1 zpe:queue   2 zpe:delay
-- ARGV  1 now in unix seconds   2 how many jobs at most
-- Returns {kind, how many of it were moved, …}
local flat = {}
for kind, n in pairs(promote(ARGV[1], ARGV[2])) do
  flat[#flat + 1] = kind
  flat[#flat + 1] = n
end
return flat
