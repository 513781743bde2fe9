-- Finds a permit that no client has on this node, and that is kept for no waiter. Finds several where no other client
-- waits, or has asked a moment ago.
--
-- KEYS[1] one of the permits   ARGV[1] the beginning of all their keys   ARGV[2] how many there are
-- ARGV[3] the number to begin with   ARGV[4] the waiter that asks, or empty
-- ARGV[5] how many it has use for   ARGV[6] the client that asks
-- Answers the numbers of the permits, in front of what the waiters are told.
local count = tonumber(ARGV[2])

local function number(place)
  return (ARGV[3] + place) % count
end

-- How many permits at these places are taken. One call, however many there are.
local function taken(first, last)
  local keys = {}
  for place = first, last do
    keys[#keys + 1] = ARGV[1] .. string.format('%.0f', number(place))
  end
  return redis.call('EXISTS', unpack(keys))
end

-- The first of these places with a free permit, or nil. Halves a range with a free permit until one place is left.
local function free(first, last)
  if taken(first, last) > last - first then
    return nil
  end
  while first < last do
    local middle = math.floor((first + last) / 2)
    if taken(first, middle) > middle - first then
      first = middle + 1
    else
      last = middle
    end
  end
  return first
end

-- Lua can pass on some thousands of values at once.
local function parts(size, most)
  local first = 0
  return function()
    if first < count then
      local from, to = first, math.min(first + size, count) - 1
      first, size = to + 1, math.min(4 * size, most)
      return from, to
    end
  end
end

-- A waiter that was given its turn by a release has the first word. A user without permission to read
-- these sets has no queue.
local line = string.sub(ARGV[1], 1, -2)
local had_turn = redis.pcall('ZREM', line .. ':given', ARGV[4]) == 1
local time = redis.call('TIME')
local milliseconds = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format('%.0f', milliseconds)
local kept = redis.pcall('ZCOUNT', line .. ':given', now, '+inf')
local waiting = redis.pcall('EXISTS', line .. ':queue')
local left
if type(kept) == 'number' and type(waiting) == 'number' and kept + waiting > 0 then
  left = count - kept
  for first, last in parts(1000, 1000) do
    left = left - taken(first, last)
  end
  if left < 1 and not had_turn then
    return {}
  end
end

-- How long a client counts that has asked, in ms. One that wants permits all the time is in the queue only now and
-- then: while it asks, and while it has its turn, it is not.
local RECENT = 1000
local askers = line .. ':askers'
redis.pcall('ZREMRANGEBYSCORE', askers, '-inf', string.format('%.0f', milliseconds - RECENT))
redis.pcall('ZADD', askers, now, ARGV[6])
redis.pcall('PEXPIRE', askers, RECENT)

-- Whether no other client waits, has been given its turn, or has asked a moment ago. A user without permission to look
-- does not know.
local function is_alone()
  if redis.pcall('ZCOUNT', askers, '-inf', '+inf') ~= 1 then
    return false
  end
  local length = redis.pcall('ZCARD', line .. ':queue')
  local place = redis.pcall('ZRANK', line .. ':queue', ARGV[4])
  return kept == 0 and length == (type(place) == 'number' and 1 or 0)
end

local found = {}
local most = ARGV[5] ~= '1' and is_alone() and tonumber(ARGV[5]) or 1
-- The usual case is that one of the first is free.
local rest
for first, last in parts(4, 1000) do
  local place = free(first, last)
  if place then
    found[1] = number(place)
    rest = place + 1
    break
  end
end
-- The others in small parts, most of which are taken or free as a whole.
while rest and rest < count and #found < most do
  local last = math.min(rest + 16, count) - 1
  local all = last - rest + 1
  local free_ones = all - taken(rest, last)
  for place = rest, last do
    if free_ones > 0 and #found < most and (free_ones == last - place + 1 or taken(place, place) == 0) then
      found[#found + 1] = number(place)
      free_ones = free_ones - 1
    end
  end
  rest = last + 1
end
if most == 1 and #found == 1 and left and left > 1 then
  -- It was released when no client waited.
  wake(line)
  for _, word in ipairs(told) do
    found[#found + 1] = word
  end
end
return found
