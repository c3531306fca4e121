-- The log of a job is a list. Its first element is "DROPPED BYTES": how many lines
-- were dropped, and how long the texts of the others are together. Then each line
-- is "MS TEXT", MS being its time. When the job ends, a short log is packed into a
-- string, see pack: a list costs twice as much. Needs job.lua before it.
local packed_at_most = 16384 -- bytes of text

-- header returns how many lines a list has dropped and its bytes, or nil when the
-- key is not a log in the form of a list.
local function header(log)
  if redis.call('TYPE', log).ok ~= 'list' then return nil end
  local dropped, bytes = string.match(redis.call('LINDEX', log, 0), '^(%d+) (%d+)$')
  return tonumber(dropped), tonumber(bytes)
end

local function split(line)
  local ms, text = string.match(line, '^(%d+) (.*)$')
  return tonumber(ms) or 0, text or line
end

-- common returns how many bytes a and b have in common at the beginning, and how
-- many of the others at the end.
local function common(a, b)
  local most, head, tail = math.min(#a, #b), 0, 0
  while head < most and a:byte(head + 1) == b:byte(head + 1) do head = head + 1 end
  while tail < most - head and a:byte(#a - tail) == b:byte(#b - tail) do tail = tail + 1 end
  return head, tail
end

-- base36 writes a whole number as tonumber(s, 36) reads it.
local function base36(n)
  local digits = ''
  repeat
    local d = n % 36
    digits = string.char(d < 10 and 48 + d or 87 + d) .. digits
    n = math.floor(n / 36)
  until n == 0
  return digits
end

-- pack turns a short log into one string: its header and a semicolon, and for each
-- line "MS,HEAD,TAIL,N:TEXT". MS is the time since the line before, in base 36, HEAD and
-- TAIL are how many bytes the line has in common with that one, TEXT is the N bytes
-- between. "MS:TEXT" is a line with the same numbers as the one before.
local function pack(log, ttl)
  local dropped, bytes = header(log)
  if not dropped or bytes > packed_at_most then return end
  local parts, ms, text, shape = {string.format('%d %d;', dropped, bytes)}, 0, '', ''
  for _, line in ipairs(redis.call('LRANGE', log, 1, -1)) do
    local at, new = split(line)
    local head, tail = common(text, new)
    local numbers = string.format(',%d,%d,%d', head, tail, #new - head - tail)
    parts[#parts + 1] = base36(at - ms) .. (numbers == shape and '' or numbers) .. ':' .. new:sub(head + 1, #new - tail)
    ms, text, shape = at, new, numbers
  end
  redis.call('SET', log, table.concat(parts), 'EX', ttl)
end

-- unpacked returns how many lines a packed log has dropped, its bytes and its lines
-- as a list has them, or nil when the key is no packed log.
local function unpacked(log)
  if redis.call('TYPE', log).ok ~= 'string' then return nil end
  local raw = redis.call('GETRANGE', log, 0, 8 * packed_at_most)
  local dropped, bytes, pos = string.match(raw, '^(%d+) (%d+);()')
  if not dropped then return nil end
  local lines, ms, text, head, tail, n = {}, 0, '', 0, 0, 0
  while pos <= #raw do
    local at, numbers, start = string.match(raw, '^(%w+)([%d,]*):()', pos)
    if not at then break end -- somebody else has written here
    if numbers ~= '' then
      head, tail, n = string.match(numbers, '^,(%d+),(%d+),(%d+)$')
      if not n then break end
    end
    ms = ms + (tonumber(at, 36) or 0)
    text = text:sub(1, tonumber(head)) .. raw:sub(start, start + n - 1) .. text:sub(#text - tail + 1)
    lines[#lines + 1] = string.format('%d ', ms) .. text
    pos = start + n
  end
  return tonumber(dropped), tonumber(bytes), lines
end

-- trim drops the oldest lines of a list until the others have cap bytes at most, and
-- writes its header.
local function trim(log, dropped, bytes, cap)
  while bytes > cap do
    local oldest = redis.call('LRANGE', log, 1, 100)
    if #oldest == 0 then break end
    local n = 0
    while n < #oldest and bytes > cap do
      n = n + 1
      local _, text = split(oldest[n])
      bytes = bytes - #text
    end
    dropped = dropped + n
    redis.call('LTRIM', log, n, -1) -- the last line dropped leaves its place to the header
  end
  redis.call('LSET', log, 0, string.format('%d %d', dropped, bytes))
end

-- append adds lines to a job's log, and drops the oldest lines once the texts of all
-- exceed cap bytes.
local function append(log, lines, cap, ttl)
  if #lines == 0 then return end
  local dropped, bytes = header(log)
  if not dropped then
    local old
    dropped, bytes, old = unpacked(log)
    dropped, bytes = dropped or 0, bytes or 0
    redis.call('DEL', log)
    redis.call('RPUSH', log, string.format('%d %d', dropped, bytes))
    for _, line in ipairs(old or {}) do redis.call('RPUSH', log, line) end
  end
  local ms = math.max(now(), (split(redis.call('LINDEX', log, -1)))) -- lines are in order also when the clock is set back
  for _, line in ipairs(lines) do
    redis.call('RPUSH', log, string.format('%d ', ms) .. line)
    bytes = bytes + #line
  end
  trim(log, dropped, bytes, cap)
  redis.call('EXPIRE', log, ttl)
end
