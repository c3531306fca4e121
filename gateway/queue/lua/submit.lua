-- Queues a job: payload, status and queue entry come into being together.
--
-- KEYS  1 the queue of its kind   2 zpe:payload:ID   3 zpe:status:ID   4 zpe:ops
--       5 zpe:idempotency:HASH, or none
-- ARGV  1 id   2 payload   3 now, RFC 3339   4 ttl in ms   5 jobs queued at most
--       6 digest of the payload   7 ttl of the idempotency key in ms   8 kind   9… its uploads
-- Returns {'ok'} | {'again', id} | {'differs'} | {'off'} | {'full'} | {'input'}: one of its uploads is not there
--
-- An id that is on record is this very call, whose answer was lost: ids are random.
if KEYS[5] then
  local earlier = call('HMGET', KEYS[5], 'job_id', 'digest')
  if earlier[1] then
    if earlier[2] ~= ARGV[6] then return {'differs'} end
    return {'again', earlier[1]}
  end
end
if call('EXISTS', KEYS[3]) == 1 then return {'again', ARGV[1]} end
if call('HGET', KEYS[4], 'submission_enabled') == '0' then return {'off'} end
if call('LLEN', KEYS[1]) >= tonumber(ARGV[5]) then return {'full'} end
for i = 9, #ARGV do
  if call('EXISTS', key('upload', ARGV[i])) == 0 then return {'input'} end
end
for i = 9, #ARGV do
  -- Kept as long as a job of it, which may be kept again and again: see artifact.go.
  call('HSET', key('upload', ARGV[i]), 'job:' .. ARGV[1], 1)
  call('PEXPIRE', key('upload', ARGV[i]), 2 * ARGV[4])
end
call('SET', KEYS[2], ARGV[2], 'PX', ARGV[4])
if builtin(ARGV[8]) then
  become({'queued', ''}, ARGV[1], 'queued', '', ARGV[3], ARGV[4], 'created_at', ARGV[3])
else
  become({'queued', '', nil, ARGV[8]}, ARGV[1], 'queued', '', ARGV[3], ARGV[4], 'created_at', ARGV[3], 'kind', ARGV[8])
end
put('LPUSH', 'queue', ARGV[8], ARGV[1])
tally(ARGV[8], 'in', ARGV[3])
if KEYS[5] then
  call('HSET', KEYS[5], 'job_id', ARGV[1], 'digest', ARGV[6])
  call('PEXPIRE', KEYS[5], ARGV[7])
end
return {'ok'}
