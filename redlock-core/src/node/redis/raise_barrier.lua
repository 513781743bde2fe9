-- Raises the barrier of a writer that waits: new readers wait behind it.
--
-- KEYS[1] the lock   KEYS[2] the barrier   ARGV[1] the writer   ARGV[2] how long the barrier lives, in ms
-- ARGV[3] its place in the queue, or 0   ARGV[4] 1 if it is to stand where there are no readers, too
-- Answers 1 if it is done; 0 if there are no readers, or a writer that is before this one has its barrier there.
-- Without permission for TYPE, a client has no readers that it could wait for.
if ARGV[4] ~= '1' and redis.pcall('TYPE', KEYS[1]).ok ~= 'zset' then
  return 0
end
local barrier = redis.call('GET', KEYS[2]) or ''
local place, writer = string.match(barrier, '^(%d+):(.*)$')
local before, own = tonumber(place) or 0, tonumber(ARGV[3])
if before > 0 and writer ~= ARGV[1] and (own == 0 or own > before) then
  return 0
end
redis.call('SET', KEYS[2], ARGV[3] .. ':' .. ARGV[1], 'PX', ARGV[2])
return 1
