-- Tells what is known of a lock and of the queue before it. Changes nothing.
--
-- KEYS[1] the lock   ARGV[1] the prefix of the queue's keys
-- Answers the value or nil, PTTL, the waiters in order, and 1 if a waiter has been given its turn.
local waiting = {}
-- A user without permission to read queues sees no queue.
local queue = redis.pcall('ZRANGE', ARGV[1] .. ':queue', 0, -1)
for _, name in ipairs(queue) do
  -- A waiter without this key has said nothing for as long as an entry lives.
  if redis.pcall('EXISTS', ARGV[1] .. ':alive:' .. name) == 1 then
    waiting[#waiting + 1] = name
  end
end
-- Readers have no name here.
local holder = ''
-- A user without permission for TYPE has none.
if redis.pcall('TYPE', KEYS[1]).ok ~= 'zset' then
  holder = redis.call('GET', KEYS[1])
end
local is_out = redis.pcall('EXISTS', ARGV[1] .. ':queue:turn') == 1
return {holder, redis.call('PTTL', KEYS[1]), waiting, is_out and 1 or 0}
