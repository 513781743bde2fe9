-- Finds a permit that no client has on this node, and that is kept for no waiter. Finds several for a client that has
-- use for them: its share of all where other clients wait, or have asked a moment ago.
--
-- KEYS[1] one of the permits   ARGV[1] the beginning of all their keys   ARGV[2] how many there are
-- ARGV[3] the number to begin with   ARGV[4] the waiter that asks, or empty
-- ARGV[5] how many it has use for   ARGV[6] the client that asks
-- ARGV[7] how long they are kept for it until it has set their keys, in microseconds
-- Answers the numbers of the permits, in front of what the waiters are told.
local count, begin = tonumber(ARGV[2]), tonumber(ARGV[3])

-- Places begin with 1.
local function number(place)
  return (begin + place - 1) % count
end

-- The names of the keys at the places so far. To make a name costs as much as to look for its key.
local names = {}
local prefix, format = ARGV[1], string.format

-- A waiter that was given its turn by a release has the first word. A user without permission to read
-- these sets has no queue.
local queue_name = string.sub(ARGV[1], 1, -2)
local had_turn = redis.pcall('ZREM', queue_name .. ':given', ARGV[4]) == 1
local time = redis.call('TIME')
local milliseconds = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format('%.0f', milliseconds)
local microseconds = time[1] * 1000000 + time[2]

-- How long a client counts that has asked, and the most that what it was told of is kept for it, in ms. One that wants
-- permits all the time is in the queue only now and then: while it asks, and while it has its turn, it is not.
local RECENT = 1000

-- The places of permits that clients were told of a moment ago, and whose keys they may have yet to set. Another client
-- that is nearer would set them first.
local coming, spoken_for = queue_name .. ':coming', {}
redis.pcall('ZREMRANGEBYSCORE', coming, '-inf', string.format('%.0f', microseconds))
local told_of = redis.pcall('ZRANGE', coming, 0, -1, 'WITHSCORES')
for at = 1, #told_of, 2 do
  local left = told_of[at + 1] - microseconds
  -- A score in the distant future is from before the clock was set back.
  if 0 < left and left <= 1000 * RECENT and tonumber(told_of[at]) < count then
    spoken_for[(told_of[at] - begin) % count + 1] = true
  end
end

-- How many permits at these places are free. One call, however many there are: Lua can pass on some thousands of
-- values at once.
local function free(first, last)
  for place = #names + 1, last do
    names[place] = prefix .. format('%.0f', number(place))
  end
  if not next(spoken_for) then
    return last - first + 1 - redis.call('EXISTS', unpack(names, first, last))
  end
  local looked = {}
  for place = first, last do
    if not spoken_for[place] then
      looked[#looked + 1] = names[place]
    end
  end
  return #looked > 0 and #looked - redis.call('EXISTS', unpack(looked)) or 0
end

-- A turn in the distant future is from before the clock was set back.
local kept = redis.pcall('ZCOUNT', queue_name .. ':given', now, string.format('%.0f', milliseconds + RECENT))
local waiting = redis.pcall('EXISTS', queue_name .. ':queue')
local is_wanted = type(kept) == 'number' and type(waiting) == 'number' and kept + waiting > 0

local askers = queue_name .. ':askers'
redis.pcall('ZREMRANGEBYSCORE', askers, '-inf', string.format('%.0f', milliseconds - RECENT))

-- How many other clients wait, have been given their turn, or have asked a moment ago. A user without permission to
-- look does not know.
local function count_others()
  local asked = redis.pcall('ZCARD', askers)
  local waits = redis.pcall('ZCARD', queue_name .. ':queue')
  if type(asked) ~= 'number' or type(waits) ~= 'number' or type(kept) ~= 'number' then
    return nil
  end
  if type(redis.pcall('ZRANK', askers, ARGV[6])) == 'number' then
    asked = asked - 1
  end
  if type(redis.pcall('ZRANK', queue_name .. ':queue', ARGV[4])) == 'number' then
    waits = waits - 1
  end
  return math.max(asked, waits, kept)
end

local most = tonumber(ARGV[5])
local others = most > 1 and count_others()
if not others then
  most, others = 1, 0
end

-- How many are free, up to the number from which on it makes no difference, and the first part in which some are.
local enough = is_wanted and kept + 2 or 1
if others > 0 then
  enough = kept + most * (others + 1) + 1
end
local seen, first, last
local function look()
  seen, first, last = 0, nil, nil
  -- The usual case is that one of the first is free. In small parts, the first of them is found soon.
  local from, size = 1, 4
  while from <= count and seen < enough do
    local to = math.min(from + size - 1, count)
    local some = free(from, to)
    if seen == 0 and some > 0 then
      first, last = from, to
    end
    seen, from, size = seen + some, to + 1, math.min(4 * size, 128)
  end
end
look()
if had_turn and seen == 0 and next(spoken_for) then
  -- The one that was released for it may be among them.
  spoken_for, most = {}, 1
  look()
  seen = math.min(seen, 1)
end
if is_wanted and seen - kept < 1 and not had_turn then
  return {}
end

if type(redis.pcall('ZADD', askers, now, ARGV[6])) ~= 'number' then
  -- A user without permission to do this does not see the others either.
  most, others = 1, 0
end
redis.pcall('PEXPIRE', askers, RECENT)

if others > 0 then
  most = math.max(1, math.min(most, math.floor((seen - kept) / (others + 1))))
end
local found = {}
local rest
if first then
  -- Halves the part until one place is left.
  while first < last do
    local middle = math.floor((first + last) / 2)
    if free(first, middle) > 0 then
      last = middle
    else
      first = middle + 1
    end
  end
  found[1] = number(first)
  rest = first + 1
end
-- The others in small parts, most of which are taken or free as a whole.
while rest and rest <= count and #found < most do
  local to = math.min(rest + 15, count)
  local some = free(rest, to)
  for place = rest, to do
    if some > 0 and #found < most and (some == to - place + 1 or free(place, place) == 1) then
      found[#found + 1] = number(place)
      some = some - 1
    end
  end
  rest = to + 1
end
if #found > 0 and ARGV[7] ~= '0' then
  local soon = string.format('%.0f', microseconds + math.min(ARGV[7], 1000 * RECENT))
  for _, it in ipairs(found) do
    redis.pcall('ZADD', coming, soon, it)
  end
  redis.pcall('PEXPIRE', coming, RECENT)
end
if is_wanted and #found > 0 and (most == 1 or others > 0) and seen - kept > #found then
  -- It was released when no client waited.
  wake(queue_name)
  for _, word in ipairs(told) do
    found[#found + 1] = word
  end
end
return found
