-- KEYS  1 zpe:queue   2 zpe:delay
-- ARGV  1 now in unix seconds   2 how many jobs at most
-- Returns how many were moved.
return promote(ARGV[1], ARGV[2])
