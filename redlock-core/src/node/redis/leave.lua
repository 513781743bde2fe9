-- Leaves the queue before a lock. A turn that came already goes to the next waiter.
--
-- KEYS[1] the lock   ARGV[1] the prefix of the queue's keys   ARGV[2] the waiter
-- Answers 1 if it stood in the queue, 0 if it did not.
local queue = ARGV[1] .. ':queue'

redis.call('DEL', ARGV[1] .. ':alive:' .. ARGV[2])
-- A server keeps what a client tracks until it is written.
tell(ARGV[1] .. ':next:' .. ARGV[2])
tell(ARGV[1] .. ':turn:' .. ARGV[2])
local place = redis.call('ZRANK', queue, ARGV[2])
if place then
  redis.call('ZREM', queue, ARGV[2])
end
local was_first = place == 0
local is_kept = string.sub(ARGV[1], -7) == ':permit' and redis.pcall('ZREM', ARGV[1] .. ':given', ARGV[2]) == 1
if is_kept or (was_first or not place) and redis.call('EXISTS', KEYS[1]) == 0 then
  -- The waiter had the turn and did not use it, or the lock became free before the waiter left.
  wake(ARGV[1])
elseif was_first then
  -- The next waiter is the first from now on.
  local first = redis.call('ZRANGE', queue, 0, 0)[1]
  if first then
    tell(ARGV[1] .. ':next:' .. first)
  end
end
return place and 1 or 0
