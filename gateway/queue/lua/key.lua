-- What every script begins with: the names of a job's keys. Ids that a script
-- learns from the queue name keys that its caller could not declare; so these
-- scripts need one Redis server, not a cluster.
local function key(name, id) return 'zpe:' .. name .. ':' .. id end
local call = redis.call
