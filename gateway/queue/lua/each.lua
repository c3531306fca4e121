-- The scripts about several calls of workers, which need not be of one worker, have first the
-- arguments that all calls share, and then those of each call. The first three of a call are the
-- hash of the token, the worker's id and the id that the request says it is from: see who.lua.
--
-- attempt returns what f returns, or the error that it meets as the answer to its call: the other
-- calls go on. An error may be a text, with its code behind the place in the script or alone.
local function attempt(f, ...)
  local ok, answer = pcall(f, ...)
  if ok then return answer end
  if type(answer) == 'table' then return {err = answer.err} end
  local text = tostring(answer)
  return {err = string.match(text, '^%u+ .*') or string.match(text, '%-(%u+ .*)') or 'ERR Error running script: ' .. text}
end
-- each answers all calls: the first has its arguments from place at on. f is called with the
-- place of the first argument of a call and its worker; size returns how many arguments a call has.
local function each(at, size, f)
  local answers = {}
  together()
  while ARGV[at] do
    answers[#answers + 1] = attempt(function()
      local worker, refused = who(ARGV[at], ARGV[at + 1], ARGV[1], ARGV[at + 2])
      if refused then return {'refused', refused} end
      return f(at, worker)
    end)
    at = at + size(at)
  end
  move_all()
  return answers
end
