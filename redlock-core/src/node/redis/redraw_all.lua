-- Draws more numbers for a set that is still ours, and lets its locks live for at least ARGV[2]
-- milliseconds from now.
--
-- KEYS the locks, then their counters
-- ARGV[1] our value   ARGV[2] milliseconds   ARGV[3] the least number   ARGV[4] how many numbers
-- ARGV[5] how long the counters live, in ms
-- Answers the first number, or 0 if not all of the locks are there, -1 if some have another value.
local answer = look(#KEYS / 2, ARGV[1])
if answer < 1 then
  return answer
end
local first, problem = draw_all(ARGV[3], ARGV[4])
if problem then
  return redis.error_reply(problem)
end
for i = 1, #KEYS / 2 do
  -- Rule 7: it never shortens. Always, as in redraw.lua.
  redis.call('PEXPIRE', KEYS[i], math.max(redis.call('PTTL', KEYS[i]), tonumber(ARGV[2])))
end
keep_all(first + ARGV[4] - 1, ARGV[5])
return first
