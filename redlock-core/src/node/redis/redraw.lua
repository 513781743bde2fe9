-- Draws more numbers from the counter beside a lock that is still ours, and lets the lock live for at
-- least ARGV[2] milliseconds from now.
--
-- KEYS[1] the lock   KEYS[2] its counter
-- ARGV[1] our value   ARGV[2] milliseconds   ARGV[3] the least number   ARGV[4] how many numbers
-- ARGV[5] how long the counter lives, in ms
-- Answers the first number, or 0 if there is no such lock, -1 if it has another value.
local holder = redis.pcall('GET', KEYS[1])
if not holder then
  return 0
end
if type(holder) == 'table' then
  -- Readers have it. An error about the counter is none about the lock.
  return string.find(holder.err, '^WRONGTYPE') and -1 or holder
end
if holder ~= ARGV[1] then
  return -1
end
local first, problem = draw(KEYS[2], ARGV[3], ARGV[4])
if problem then
  return redis.error_reply(problem)
end
-- Rule 7: it never shortens. Always, as a server without memory keeps the numbers behind a write that needs none.
redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])))
keep(KEYS[2], first + ARGV[4] - 1, ARGV[5])
return first
