-- Deletes locks that are still ours, and gives the turn to the first waiter in the queue of each
-- whose queue is kept here.
--
-- KEYS[i] a lock   ARGV[2i-1] our value   ARGV[2i] the prefix of its queue's keys, or empty
-- Answers for each lock: 1 if it is deleted, 0 if there was no such lock, -1 if it has another value; 2
-- more when a waiter got the turn. One lock is answered by the number alone, and so are several when the
-- number is 1 for all of them.

-- One lock that no client waits for: the usual case pays for nothing else.
local one
if #KEYS == 1 then
  local holder = redis.call('GET', KEYS[1])
  one = 0
  if holder then
    if holder ~= ARGV[1] then
      return -1
    end
    redis.call('DEL', KEYS[1])
    one = 1
  end
  if ARGV[2] == '' or redis.pcall('EXISTS', ARGV[2] .. ':queue') == 0 then
    return one
  end
end
