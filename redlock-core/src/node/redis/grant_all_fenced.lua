-- Sets the locks of a set if all of them are free, and draws numbers from all their counters at once.
--
-- KEYS the locks, then their counters
-- ARGV[1] our value   ARGV[2] how long the locks live, in ms   ARGV[3] the least number
-- ARGV[4] how many numbers   ARGV[5] how long the counters live, in ms
-- Answers the first number, or -1 if not all of the locks are free.
if redis.call('EXISTS', unpack(KEYS, 1, #KEYS / 2)) > 0 then
  return -1
end
local first, problem = draw_all(ARGV[3], ARGV[4])
if problem then
  return redis.error_reply(problem)
end
for i = 1, #KEYS / 2 do
  redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
end
keep_all(first + ARGV[4] - 1, ARGV[5])
return first
