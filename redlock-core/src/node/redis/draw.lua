-- Shared by the scripts that draw numbers from a counter: they are sent with this in front.
--
-- Returns the first of `count` numbers, or nil and what is wrong with the counter. Nothing is written.
local function draw(counter, floor, count)
  local last = redis.call('GET', counter)
  local first = 1
  if last then
    if not string.find(last, '^%d+$') then
      return nil, 'ERR the fencing counter beside this lock is not a number: a lock or a program of another kind has its key'
    end
    first = tonumber(last) + 1
  end
  -- One client with a wrong clock must not use the numbers up: a minute ahead of this node is enough.
  local time = redis.call('TIME')
  first = math.max(first, math.min(tonumber(floor), time[1] * 1000000 + time[2] + 60000000))
  -- Beyond this, numbers are not exact.
  if first > 9007199254740992 - count then
    return nil, 'ERR the fencing counter beside this lock is used up: delete it, and what the protected store knows of the resource'
  end
  return first
end

-- The last number that was given out.
local function keep(counter, last, life)
  redis.call('SET', counter, string.format('%.0f', last), 'PX', life)
end
