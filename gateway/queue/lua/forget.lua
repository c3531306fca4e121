-- Drops from the set of revoked tokens those whose record is gone.
--
-- KEYS  1 zpe:revoked_tokens
-- ARGV  1 cursor   2 how many to look at
-- Returns {next cursor, how many were dropped}
local page = call('SSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local dropped = 0
for _, hash in ipairs(page[2]) do
  if call('EXISTS', key('token', hash)) == 0 then dropped = dropped + call('SREM', KEYS[1], hash) end
end
return {page[1], dropped}
