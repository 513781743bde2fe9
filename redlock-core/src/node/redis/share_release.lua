-- Removes a reader, or lets it live for exactly as long as is left of its min_hold. The last reader gives
-- the turn to the first waiter.
--
-- KEYS[1] the lock   ARGV[1] our value   ARGV[2] what is left of min_hold, in ms
-- ARGV[3] the prefix of the queue's keys, or empty   ARGV[4] 1 if the lock was taken in a turn, which is over
-- Answers 1 if it is done, 0 if there was no such reader, -1 if a writer has the lock; 4 more when the lock still has
-- readers, this one or others; 2 more when a waiter got the turn, in front of what the waiters are told.
if not is_free_of_writers(KEYS[1]) then
  return -1
end
local now = clock()
-- First, as a server without memory refuses a set before any other write.
keep(KEYS[1], now)
local answer = 0
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  answer = 1
  if tonumber(ARGV[2]) > 0 then
    set(KEYS[1], ARGV[1], now + ARGV[2])
  else
    redis.call('ZREM', KEYS[1], ARGV[1])
  end
  keep(KEYS[1], now)
end
if redis.call('EXISTS', KEYS[1]) == 1 then
  return answer + 4
end
if ARGV[3] ~= '' then
  if ARGV[4] == '1' then
    end_turn(ARGV[3])
  end
  if wake(ARGV[3]) then
    return answered(answer + 2)
  end
end
return answer
