-- current returns the status word and the progress on record for a job, or
-- false and 0 when there is none. A value that is not our JSON counts as none:
-- the key is a public contract, so anyone may have written there.
local function current(job)
  local raw = redis.pcall('GET', job)
  if type(raw) ~= 'string' then return false, 0 end
  local ok, doc = pcall(cjson.decode, raw)
  if not ok or type(doc) ~= 'table' then return false, 0 end
  local progress = tonumber(doc.progress) or 0
  return doc.status or false, math.floor(progress)
end

local function terminal(status)
  return status == 'completed' or status == 'failed' or status == 'canceled'
end

-- now is the server's clock in milliseconds: one clock for all workers.
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- put writes a status document. Its text comes in two halves, before and after
-- the number of the progress, so that a script can keep the number on record.
local function put(job, head, progress, tail, ttl)
  redis.call('SET', job, head .. string.format('%d', progress) .. tail, 'EX', ttl)
end
