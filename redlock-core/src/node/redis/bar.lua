-- Says that a writer waits for the readers of a lock: no more readers are added behind it.
--
-- KEYS[1] the lock   KEYS[2] the sign   ARGV[1] the writer   ARGV[2] how long the sign lives, in ms
-- ARGV[3] its place in the queue, or 0
-- Answers 1 if it is said, 0 if there are no readers.
-- Without permission for TYPE, a client has no readers that it could wait for.
if redis.pcall('TYPE', KEYS[1]).ok ~= 'zset' then
  return 0
end
redis.call('SET', KEYS[2], ARGV[3] .. ':' .. ARGV[1], 'PX', ARGV[2])
return 1
