-- Stands in the queue before a lock, or says again that the waiter there is alive.
--
-- KEYS[1] the lock   ARGV[1] the prefix of the queue's keys   ARGV[2] the waiter
-- ARGV[3] the place it had before, or 0 for the end   ARGV[4] how long its entry lives, in ms
-- ARGV[5] how many entries there may be   ARGV[6] 1 for a waiter that would share the lock with readers
-- Answers -1 if the queue is full, or the place, how many stand before it, PTTL of the lock, and whether another
-- waiter has its turn, where that says whether the first one may ask: 1 or 0. It is 2 for a reader that may share
-- the lock now: readers have it, and no writer has this place wait.
local queue = ARGV[1] .. ':queue'
local alive = ARGV[1] .. ':alive:'
local place = redis.call('ZSCORE', queue, ARGV[2])
local is_new = not place
if is_new then
  if redis.call('ZCARD', queue) >= tonumber(ARGV[5]) then
    return -1
  end
  place = ARGV[3]
  if place == '0' then
    -- The server's own time, and never before an entry that is there.
    local now = redis.call('TIME')
    local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
    place = math.max(now[1] * 1000000 + now[2], (tonumber(last) or 0) + 1)
  end
  place = string.format('%.0f', place)
end
-- First: a user that may not SET leaves no queue without an expiry.
redis.call('SET', alive .. ARGV[2], 1, 'PX', ARGV[4])
if is_new then
  redis.call('ZADD', queue, place, ARGV[2])
end
redis.call('PEXPIRE', queue, 2 * ARGV[4])
local ahead = redis.call('ZRANK', queue, ARGV[2])
-- Dead waiters are dropped from the front, where they would cost time.
while ahead > 0 do
  local first = redis.call('ZRANGE', queue, 0, 0)[1]
  if redis.call('EXISTS', alive .. first) == 1 then
    break
  end
  redis.call('ZREM', queue, first)
  ahead = ahead - 1
end
local left = redis.call('PTTL', KEYS[1])
local is_out = 1
if ahead == 0 and left == -2 then
  local turn = redis.pcall('GET', queue .. ':turn')
  -- Its own turn is none of another waiter.
  is_out = (not turn or turn == ARGV[2]) and 0 or 1
elseif ARGV[6] == '1' and left ~= -2 and redis.pcall('TYPE', KEYS[1]).ok == 'zset' then
  local barrier = redis.pcall('GET', ARGV[1] .. ':barrier')
  if not barrier
      or type(barrier) == 'string' and tonumber(place) <= tonumber(string.match(barrier, '^%d+') or 0) then
    is_out = 2
  end
end
return {string.format('%.0f', place), ahead, left, is_out}
