-- Reads a part of a job's log. Needs job.lua and log.lua before it.
--
-- The place of a line is its time and its number among all lines there were. Where
-- another line has that number, because Redis has lost the log, the time counts. After a
-- line that was dropped comes the mark for those that were.
--
-- KEYS  1 job:ID   2 {job:ID}:log
-- ARGV  1 lines at most   2 'first' lines after a place, 'last' lines of all, or 'before' a place
--       3 ms and 4 number of the place   5 ms that no line is older than
-- Returns false when nothing is known of the job | {which line of those kept the first one is,
-- how many were dropped, the head, line, …}; see trim for the head
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
local dropped, _, head, lines = header(KEYS[2])
local count
if dropped then
  count = redis.call('LLEN', KEYS[2]) - 1
else
  dropped, _, head, lines = unpacked(KEYS[2])
  if not dropped then return {1, 0, 0} end
  count = #lines
end

local function at(i)
  return (split(lines and lines[i] or redis.call('LINDEX', KEYS[2], i)))
end

-- from returns the first line that is as late as ms, or one more than there are.
local function from(ms)
  local low, high = 1, count + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if at(middle) >= ms then high = middle else low = middle + 1 end
  end
  return low
end

-- find returns the line at a place, and the one after it. There is none at the place of a
-- line that was dropped, if the time can be that of one.
local function find(ms, number)
  local i = number
  if number > head then i = number - dropped + (head > 0 and 1 or 0) end
  if number > head and i <= head then
    if at(head) <= ms and ms <= at(head + 1) then return head + 1, head + 1 end
  elseif i >= 1 and i <= count and at(i) == ms then
    return i, i + 1
  end
  return from(ms), from(ms + 1)
end

local most, place, after = tonumber(ARGV[1]), 0, 0
if ARGV[2] ~= 'last' then place, after = find(tonumber(ARGV[3]), tonumber(ARGV[4])) end
local first, last = from(tonumber(ARGV[5])), count
if ARGV[2] == 'first' then
  first = math.max(first, after)
  last = math.min(last, first + most - 1)
else
  if ARGV[2] == 'before' then last = place - 1 end
  first = math.max(first, last - most + 1)
end

local answer = {first, dropped, head}
if lines then
  for i = first, last do answer[#answer + 1] = lines[i] end
elseif first <= last then
  for _, line in ipairs(redis.call('LRANGE', KEYS[2], first, last)) do answer[#answer + 1] = line end
end
return answer
