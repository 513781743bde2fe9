-- Deletes a lock whichever client holds it, and gives the turn to the first waiter.
--
-- KEYS[1] the lock   ARGV[1] the prefix of its queue's keys, or empty
-- Answers 1 if it is deleted, 0 if there was no such lock; 2 more when a waiter got the turn, in front of what
-- the waiters are told.
local deleted = redis.call('DEL', KEYS[1])
local is_woken = ARGV[1] ~= '' and wake(ARGV[1])
return answered(deleted + (is_woken and 2 or 0))
