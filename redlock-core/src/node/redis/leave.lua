-- Leaves the queue before a lock. A turn that came already goes to the next waiter, and so does the turn of
-- a reader that has the lock.
--
-- KEYS[1] the lock   ARGV[1] the prefix of the queue's keys   ARGV[2] the waiter
-- ARGV[3] 1 if it may have left before. It passes nothing on then, unless it is still there.
-- Answers 1 if it stood in the queue, 0 if it did not; 2 more when a waiter was told that it has the turn, or 4 more
-- when others wait and none was told so; in front of what the waiters are told.
local queue = ARGV[1] .. ':queue'

redis.call('DEL', ARGV[1] .. ':alive:' .. ARGV[2])
forget(ARGV[1], ARGV[2])
write(ARGV[1] .. ':turn:' .. ARGV[2])
local place = redis.call('ZRANK', queue, ARGV[2])
if place then
  redis.call('ZREM', queue, ARGV[2])
end
local was_first = place == 0
local is_kept = string.sub(ARGV[1], -7) == ':permit' and redis.pcall('ZREM', ARGV[1] .. ':given', ARGV[2]) == 1
local had_turn = not place and ARGV[3] ~= '1'
if had_turn then
  -- Its entry may have been dropped because it was silent, and another waiter has the turn.
  local turn = redis.pcall('GET', queue .. ':turn')
  had_turn = type(turn) ~= 'string' or turn == ARGV[2]
end
local was_next = was_first or had_turn
local is_woken = false
if had_turn then
  end_turn(ARGV[1])
end
if is_kept or was_next and redis.call('EXISTS', KEYS[1]) == 0 then
  -- The waiter had the turn and did not use it, or the lock became free before the waiter left.
  is_woken = wake(ARGV[1])
elseif (was_next or place) and redis.pcall('TYPE', KEYS[1]).ok == 'zset' then
  -- Without permission for TYPE, there are no readers. A reader that is told shares the lock, and a writer has
  -- later readers wait. Each keeps its place: nothing else gives a writer the turn when the lock is free.
  local first, alive, at = choose(ARGV[1], queue, place or 0)
  if first and was_next then
    tell(ARGV[1], 'turn', first)
    is_woken = true
    at = at + 1
  end
  if first then
    -- The waiter with the turn may have crashed just now, and so may those before a waiter that leaves a place
    -- behind others: that may be a reader that has the lock. The readers behind would wait until the entries have
    -- expired.
    tell_behind(ARGV[1], queue, at, alive)
  end
elseif was_first then
  -- The next waiter is the first from now on.
  local first = redis.call('ZRANGE', queue, 0, 0)[1]
  if first then
    tell(ARGV[1], 'next', first)
  end
end
return answered((place and 1 or 0) + (is_woken and 2 or 4 * redis.call('EXISTS', queue)))
