-- Shared by the scripts that give the turn to a waiter: they are sent with this in front.

-- A key that is written is pushed to the client that tracks it. It need not stay.
local function write(key)
  redis.call('SET', key, 1)
  redis.call('DEL', key)
end

-- What the waiters are told. The answer says it, too: nothing is pushed to the client that runs the script.
local told = {}

local function tell(prefix, what, waiter)
  write(prefix .. ':' .. what .. ':' .. waiter)
  told[#told + 1] = what .. ':' .. waiter
end

-- The answer: the number alone, or in front of what the waiters are told.
local function answered(number)
  return #told == 0 and number or {number, unpack(told)}
end

-- A waiter that gets its turn, or leaves, is told nothing else any more. A server keeps what a client tracks until it
-- is written.
local function forget(prefix, waiter)
  write(prefix .. ':near:' .. waiter)
  write(prefix .. ':next:' .. waiter)
end

-- A permit that is free is kept for the waiter that has its turn, for a second. Without this, clients that
-- happen to ask before it would take its permit again and again.
local function keep_permit(prefix, waiter)
  if string.sub(prefix, -7) == ':permit' then
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local given = prefix .. ':given'
    -- What is left of waiters that never asked. Without the permission, it goes with the key.
    redis.pcall('ZREMRANGEBYSCORE', given, '-inf', string.format('%.0f', now))
    -- A release must not fail behind its delete because of a companion.
    redis.pcall('ZADD', given, string.format('%.0f', now + 1000), waiter)
    redis.pcall('PEXPIRE', given, 1000)
  end
end

-- A waiter says about every 1.5 s that it is alive, and the key with that lives for 5 s. With less than this left, it
-- has crashed or is late: it keeps its place, and others go before it.
local SILENT = 2500
-- With more than this left, it is there: it has said so just now.
local FRESH = 4700
-- How many of the waiters that are late are passed over.
local MOST = 16

-- Takes a waiter out of the queue. False without the permission, which must not fail the release.
local function remove(queue, waiter)
  return type(redis.pcall('ZREM', queue, waiter)) == 'number'
end

-- The waiter that is told, of those from this place on, for how long its entry would live, and its place.
-- Without any other, it is one that is late.
local function choose(prefix, queue, from)
  local place, late = from
  -- A user without permission to read queues has no queue. That must not fail the release.
  local waiter = redis.pcall('ZRANGE', queue, place, place)[1]
  while waiter and place < from + MOST do
    local alive = redis.call('PTTL', prefix .. ':alive:' .. waiter)
    if alive > SILENT then
      return waiter, alive, place
    elseif alive > 0 then
      late = late or waiter
      place = place + 1
    elseif not remove(queue, waiter) then
      return late, 0, from
    end
    waiter = redis.call('ZRANGE', queue, place, place)[1]
  end
  return late, 0, from
end

-- Tells the waiter at this place that it is next. It looks for itself when the turn before it is not used. Several
-- waiters that have crashed, one after the other, would have none that looks: two more are told then. They have a
-- key of their own for this, because a push ends the tracking of its key, and each of them has yet to hear that it
-- is next.
local function tell_behind(prefix, queue, from, alive)
  for place, behind in ipairs(redis.call('ZRANGE', queue, from, alive > FRESH and from or from + 2)) do
    tell(prefix, place == 1 and 'next' or 'near', behind)
  end
end

-- How long a turn counts as out, in ms, unless the waiter that was given it leaves, or releases the lock.
local OUT = 1000

-- Ends the turn that is out.
local function end_turn(prefix)
  -- While the slot moves, a key that is not there cannot be used. That must not fail the release.
  redis.pcall('DEL', prefix .. ':queue:turn')
end

-- Whether no key can be used that is not there, because the slot moves to another server of a cluster.
local function is_moving(prefix)
  local answer = redis.pcall('EXISTS', prefix .. ':turn:')
  return type(answer) == 'table' and string.find(answer.err, 'non local key', 1, true)
end

-- Gives the turn to the first waiter. False when no waiter is there, or can be told.
local function wake(prefix)
  local queue = prefix .. ':queue'
  if is_moving(prefix) then
    return false
  end
  local waiter, alive = choose(prefix, queue, 0)
  if not waiter then
    return false
  end
  if not remove(queue, waiter) then
    return false
  end
  redis.call('DEL', prefix .. ':alive:' .. waiter)
  redis.call('SET', queue .. ':turn', waiter, 'PX', OUT)
  keep_permit(prefix, waiter)
  forget(prefix, waiter)
  tell(prefix, 'turn', waiter)
  tell_behind(prefix, queue, 0, alive)
  return true
end
