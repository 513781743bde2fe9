-- Deletes a lock whichever client holds it, and gives the turn to the first waiter.
--
-- KEYS[1] the lock   ARGV[1] the prefix of its queue's keys, or empty
-- Answers 1 if it is deleted, 0 if there was no such lock; or, when a waiter got the turn, 2 more and the name
-- of the waiter.
local deleted = redis.call('DEL', KEYS[1])
local waiter = ARGV[1] ~= '' and wake(ARGV[1])
if waiter then
  return {deleted + 2, waiter}
end
return deleted
