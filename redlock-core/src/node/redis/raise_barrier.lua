-- Raises the barrier of a writer that waits for the readers of a lock: new readers wait behind it.
--
-- KEYS[1] the lock   KEYS[2] the barrier   ARGV[1] the writer   ARGV[2] how long the barrier lives, in ms
-- ARGV[3] its place in the queue, or 0
-- Answers 1 if it is done, 0 if there are no readers.
-- Without permission for TYPE, a client has no readers that it could wait for.
if redis.pcall('TYPE', KEYS[1]).ok ~= 'zset' then
  return 0
end
redis.call('SET', KEYS[2], ARGV[3] .. ':' .. ARGV[1], 'PX', ARGV[2])
return 1
