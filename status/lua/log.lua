-- The log of a job is a list. Its first element is "DROPPED BYTES" or "DROPPED BYTES HEAD":
-- how many lines were dropped, how long the texts of the others are together, and how
-- many of them stand before those that were dropped; see trim. Then each line is
-- "MS TEXT", MS being its time. When the job ends, a short log is packed into a
-- string, see pack: a list costs twice as much. Needs job.lua before it.
local packed_at_most = 16384 -- bytes of text
local packed_lines = 1000

-- line_bytes is what a line takes beside its text: its time, and what a list needs.
local line_bytes = 16

-- parse reads the first element of a list: how many lines it has dropped, its bytes and its head. It returns nil
-- for what is no such element.
local function parse(first)
  local dropped, bytes, head = string.match(first, '^(%d+) (%d+) ?(%d*)$')
  return tonumber(dropped), tonumber(bytes), tonumber(head) or 0
end

-- header is parse of a log's first element. It returns nil when the key is not a log in the form of a list.
local function header(log, kind)
  if (kind or redis.call('TYPE', log).ok) ~= 'list' then return nil end
  return parse(redis.call('LINDEX', log, 0))
end

local function heading(dropped, bytes, head)
  return string.format(head > 0 and '%d %d %d' or '%d %d', dropped, bytes, head)
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

-- packed turns lines, as a list has them from place first on, into one string: the first element and a semicolon,
-- and for each line "MS,HEAD,TAIL,N:TEXT". MS is the time since the line before, in base 36, HEAD and
-- TAIL are how many bytes the line has in common with that one, TEXT is the N bytes
-- between. "MS:TEXT" is a line with the same numbers as the one before.
local function packed(heading, lines, first)
  local parts, ms, text, shape = {heading .. ';'}, 0, '', ''
  for i = first, #lines do
    local at, new = split(lines[i])
    local head, tail = common(text, new)
    local numbers = string.format(',%d,%d,%d', head, tail, #new - head - tail)
    parts[#parts + 1] = base36(at - ms) .. (numbers == shape and '' or numbers) .. ':' .. new:sub(head + 1, #new - tail)
    ms, text, shape = at, new, numbers
  end
  return table.concat(parts)
end

-- pack packs a short log.
local function pack(log, ttl)
  local dropped, bytes, head = header(log)
  if not dropped or bytes > packed_at_most or redis.call('LLEN', log) > packed_lines then return end
  redis.call('SET', log, packed(heading(dropped, bytes, head), redis.call('LRANGE', log, 1, -1), 1), 'EX', ttl)
end

-- unpacked returns how many lines a packed log has dropped, its bytes, its head and its
-- lines as a list has them, or nil when the key is no packed log.
local function unpacked(log)
  if redis.call('TYPE', log).ok ~= 'string' then return nil end
  local raw = redis.call('GETRANGE', log, 0, 8 * packed_at_most)
  local dropped, bytes, before, pos = string.match(raw, '^(%d+) (%d+) ?(%d*);()')
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
  return tonumber(dropped), tonumber(bytes), tonumber(before) or 0, lines
end

-- push adds elements to a list with RPUSH, or, the last of them first, with LPUSH.
local function push(command, log, elements)
  for i = 1, #elements, 1000 do -- more do not fit on Lua's stack
    redis.call(command, log, unpack(elements, i, math.min(#elements, i + 999)))
  end
end

-- stands_for returns how many lines a text stands for: one, unless it is a mark for lines
-- that were left out. jobs.LinesIn does the same.
local function stands_for(text)
  local n = string.match(text, '^… (%d+) lines? left out$')
  return n and #n <= 15 and tonumber(n) or 1
end

local mark_byte = string.byte('…')

local function left_out(n)
  return string.format('… %.0f line%s left out', n, n == 1 and '' or 's')
end

-- fits returns how many of the first lines of a list take room bytes, at least one.
local function fits(log, room)
  local n = 0
  while true do
    local lines = redis.call('LRANGE', log, n + 1, n + 200)
    for _, line in ipairs(lines) do
      local _, text = split(line)
      room = room - #text - line_bytes
      if room < 0 then return math.max(1, n) end
      n = n + 1
    end
    if #lines == 0 then return n end
  end
end

-- trim drops lines of a list that takes more than cap bytes, and some more, so that this
-- is done seldom. What goes is in the middle: the head, a sixteenth of cap, stays, and
-- so do the newest lines. Between them is a mark for those that were dropped. It has the
-- time and the number of the last of them. Of a list that has lost its first lines
-- already, to an earlier version, the oldest lines go, and no mark tells that.
local function trim(log, dropped, bytes, head, cap)
  local count = redis.call('LLEN', log) - 1
  local size, spare = bytes + line_bytes * count, cap / 16
  if size <= cap then
    redis.call('LSET', log, 0, heading(dropped, bytes, head))
    return
  end
  local out, first = 0, 1 -- how many lines the mark stands for; the first line that may go
  if head > 0 then
    local _, mark = split(redis.call('LINDEX', log, head + 1))
    out, first = stands_for(mark), head + 2
  elseif dropped == 0 then
    head = fits(log, cap / 16)
    first = head + 1
  end
  local n, last = 0, ''
  while size > cap - spare and first + n < count do -- the newest line stays
    for _, line in ipairs(redis.call('LRANGE', log, first + n, math.min(first + n + 199, count - 1))) do
      local blank = line:find(' ', 1, true) or 0 -- as split; here it is called for thousands of lines
      n, last, out = n + 1, line, out + (line:byte(blank + 1) == mark_byte and stands_for(line:sub(blank + 1)) or 1)
      bytes, size = bytes - (#line - blank), size - (#line - blank) - line_bytes
      if size <= cap - spare then break end
    end
  end
  if n == 0 then
    redis.call('LSET', log, 0, heading(dropped, bytes, dropped > 0 and head or 0))
    return
  end
  local kept = {} -- what comes before the lines that stay, from its end
  if head > 0 then
    kept[1] = string.format('%d ', (split(last))) .. left_out(out)
    local lines = redis.call('LRANGE', log, 1, head)
    for i = head, 1, -1 do kept[#kept + 1] = lines[i] end
  end
  kept[#kept + 1] = heading(dropped + n, bytes, head)
  redis.call('LTRIM', log, first + n, -1)
  push('LPUSH', log, kept)
end

-- append adds lines to a job's log, and drops others once all take more than cap bytes.
local function append(log, lines, cap, ttl)
  if #lines == 0 then return end
  local kind = redis.call('TYPE', log).ok
  if kind == 'none' then -- the first lines of a job, as a rule
    local bytes, new = 0, {''}
    for _, line in ipairs(lines) do
      new[#new + 1] = string.format('%d ', now()) .. line
      bytes = bytes + #line
    end
    new[1] = heading(0, bytes, 0)
    push('RPUSH', log, new)
    if bytes + line_bytes * #lines > cap then trim(log, 0, bytes, 0, cap) end
    redis.call('EXPIRE', log, ttl)
    return
  end
  local dropped, bytes, head = header(log, kind)
  if not dropped then
    local old
    dropped, bytes, head, old = unpacked(log)
    dropped, bytes, head = dropped or 0, bytes or 0, head or 0
    redis.call('DEL', log)
    redis.call('RPUSH', log, heading(dropped, bytes, head))
    push('RPUSH', log, old or {})
  end
  local ms = math.max(now(), (split(redis.call('LINDEX', log, -1)))) -- lines are in order also when the clock is set back
  local new = {}
  for i, line in ipairs(lines) do
    new[i] = string.format('%d ', ms) .. line
    bytes = bytes + #line
  end
  push('RPUSH', log, new)
  trim(log, dropped, bytes, head, cap)
  redis.call('EXPIRE', log, ttl)
end

-- unwritten returns those of an attempt's lines that are not in the log yet, and how many the attempt has then: the
-- answer to an earlier report may be lost, and its lines here again. before is how many came before them.
local function unwritten(claim, before, lines)
  local known = tonumber(redis.call('HGET', claim, 'lines')) or 0
  return {unpack(lines, 1 + math.max(0, known - before))}, math.max(known, before + #lines)
end

-- last adds the last lines to a log and packs it if it is short. Of the shortest logs, which most are, it reads all
-- lines at once.
local function last(log, lines, cap, ttl)
  local few = redis.call('TYPE', log).ok == 'list' and redis.call('LRANGE', log, 0, 63) or {}
  local dropped, bytes, head = parse(few[1] or '')
  bytes = bytes or 0
  for _, line in ipairs(lines) do bytes = bytes + #line end
  if not dropped or #few == 64 or bytes > packed_at_most or bytes + line_bytes * (#few + #lines - 1) > cap then
    append(log, lines, cap, ttl)
    pack(log, ttl)
    return
  end
  local ms = math.max(now(), (split(few[#few])))
  for _, line in ipairs(lines) do few[#few + 1] = string.format('%d ', ms) .. line end
  redis.call('SET', log, packed(heading(dropped, bytes, head), few, 2), 'EX', ttl)
end
