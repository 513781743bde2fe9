-- Tells what is known of a lock and of the queue before it. Changes nothing.
--
-- KEYS[1] the lock   ARGV[1] the prefix of the queue's keys   ARGV[2] how many waiters are wanted, or 0 for all
-- Answers the value or nil, PTTL, the first waiters in order, and 1 if a waiter has been given its turn.
local wanted = tonumber(ARGV[2])
if wanted == 0 then
  wanted = math.huge
end
local waiting = {}

-- Adds those of these waiters that are alive, as far as they are wanted. A waiter without its key has said nothing for
-- as long as an entry lives.
local function add(names)
  local keys = {}
  for place, name in ipairs(names) do
    keys[place] = ARGV[1] .. ':alive:' .. name
  end
  -- Usually all are alive.
  local count = redis.pcall('EXISTS', unpack(keys))
  for place, name in ipairs(names) do
    if #waiting == wanted then
      return
    elseif count == #names or count ~= 0 and redis.pcall('EXISTS', keys[place]) == 1 then
      waiting[#waiting + 1] = name
    end
  end
end

-- No more of the queue is read than it takes to find those that are wanted.
local from, size, is_over = 0, math.min(wanted, 256), false
while #waiting < wanted and not is_over do
  -- A user without permission to read queues sees no queue.
  local names = redis.pcall('ZRANGE', ARGV[1] .. ':queue', from, from + size - 1)
  is_over = #names < size
  if #names > 0 then
    add(names)
  end
  from, size = from + size, math.min(4 * size, 256)
end
-- Readers have no name here.
local holder = ''
-- A user without permission for TYPE has none.
if redis.pcall('TYPE', KEYS[1]).ok ~= 'zset' then
  holder = redis.call('GET', KEYS[1])
end
local is_out = redis.pcall('EXISTS', ARGV[1] .. ':queue:turn') == 1
return {holder, redis.call('PTTL', KEYS[1]), waiting, is_out and 1 or 0}
