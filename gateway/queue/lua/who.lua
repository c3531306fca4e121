-- who returns the id of the worker that calls: that of a token, by its hash, or id itself where
-- the hash is empty and the worker reaches Redis itself. claimed is the id that the request says
-- it is from; may be empty. If the worker must be refused it returns nothing, and why:
-- 'revoked' | 'unknown' | 'expired' | 'mismatch'.
local tokens = {} -- those that were looked up, by hash
local function who(hash, id, now, claimed)
  if hash ~= '' then
    local token = tokens[hash]
    if not token then
      if call('SISMEMBER', 'zpe:revoked_tokens', hash) == 1 then
        token = {why = 'revoked'}
      else
        local found = call('HMGET', key('token', hash), 'worker_id', 'expires_at')
        token = {id = found[1]}
        if not found[1] then token.why = 'unknown' elseif tonumber(found[2]) <= tonumber(now) then token.why = 'expired' end
      end
      tokens[hash] = token
    end
    if token.why then return nil, token.why end
    id = token.id
  end
  if claimed ~= '' and claimed ~= id then return nil, 'mismatch' end
  return id
end
