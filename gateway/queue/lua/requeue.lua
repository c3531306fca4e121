-- Queues a dead letter again, with all its retries before it. An entry whose job
-- lives elsewhere is no dead letter.
--
-- KEYS  1 zpe:dlq   2 zpe:queue, or those of its kind   3 zpe:status:ID   4 zpe:payload:ID   5 zpe:retry_count:ID
-- ARGV  1 id   2 now, RFC 3339   3 ttl of results in ms
-- Returns {'ok', kind} | {'unknown'} | {'elsewhere'} | {'payload'}: it has expired, there is nothing to run
local was = known(ARGV[1])
local status, letters = was[1], of('dlq', was[4])
if call('LPOS', letters, ARGV[1]) == false then return {status and 'elsewhere' or 'unknown'} end
if status and status ~= 'failed' then return {'elsewhere'} end
if call('EXISTS', KEYS[4]) == 0 then return {'payload'} end
call('LREM', letters, 0, ARGV[1])
took('dlq', was[4])
call('DEL', KEYS[5])
call('HDEL', KEYS[3], 'first_leased_at', 'timed_out', 'came_back', 'cancel_requested', 'done', 'total', 'attempt', 'failures')
become(was, ARGV[1], 'queued', 'queued again', ARGV[2], ARGV[3])
call('PEXPIRE', KEYS[4], ARGV[3])
put('LPUSH', 'queue', was[4], ARGV[1])
return {'ok', was[4] or ''}
