-- Writes, as the other scripts do.
--
-- KEYS  1 zpe:check
-- ARGV  1 for how long in ms
-- Returns {'ok'}
call('SET', KEYS[1], '1', 'PX', ARGV[1])
return {'ok'}
