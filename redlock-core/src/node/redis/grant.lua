-- Sets a lock if it is free, and draws numbers from the counter beside it.
--
-- KEYS[1] the lock   KEYS[2] its counter
-- ARGV[1] our value   ARGV[2] how long the lock lives, in ms   ARGV[3] the least number
-- ARGV[4] how many numbers   ARGV[5] how long the counter lives, in ms
-- Answers the first number, or -1 if the lock is not free.
local first, problem = draw(KEYS[2], ARGV[3], ARGV[4])
if problem then
  return redis.error_reply(problem)
end
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return -1
end
keep(KEYS[2], first + ARGV[4] - 1, ARGV[5])
return first
