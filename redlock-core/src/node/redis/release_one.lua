-- Deletes locks that are still ours, and gives the turn to the first waiter in the queue of each
-- whose queue is kept here.
--
-- KEYS the locks   ARGV our value of each; then the queues that are kept here; then, for each of these, the
-- number of its lock, negative where the lock was taken in a turn, which is over
-- Answers for each lock: 1 if it is deleted, 0 if there was no such lock, -1 if it has another value; 2 more when a
-- waiter got the turn, in front of what the waiters are told. One lock has no list around its answer, and several
-- share one when it is 1 for all of them.

-- One lock that no client waits for, and that was taken without a turn: the usual case pays for nothing else.
local one
if #KEYS == 1 then
  local key, queue = KEYS[1], ARGV[2]
  local holder = redis.call('GET', key)
  one = 0
  if holder then
    if holder ~= ARGV[1] then
      return -1
    end
    one = redis.call('DEL', key)
  end
  if not queue or ARGV[3] ~= '-1' and redis.pcall('EXISTS', queue) == 0 then
    return one
  end
end
