-- The rest of a release, for locks that clients wait for and for several locks at once.

-- How many queues are kept here.
local kept = (#ARGV - #KEYS) / 2
local queues, turns = {}, {}

local function find_queues()
  for at = #KEYS + 1, #KEYS + kept do
    local number = tonumber(ARGV[at + kept])
    queues[math.abs(number)], turns[math.abs(number)] = ARGV[at], number < 0
  end
end

-- Whether clients may wait for any of the locks, or a turn is over.
local function is_waited_for()
  for at = #KEYS + kept + 1, #ARGV do
    if string.byte(ARGV[at]) == 45 then
      return true
    end
  end
  return kept > 0 and redis.pcall('EXISTS', unpack(ARGV, #KEYS + 1, #KEYS + kept)) ~= 0
end

-- The state of one key: our value, another value, or nothing.
local function look(i, holder)
  if holder == ARGV[i] then
    return 1
  end
  return holder and -1 or 0
end

-- Adds what the waiters are told to the answer, when one gets the turn.
local function woken(i, answer)
  local queue = queues[i]
  if queue and answer >= 0 then
    local prefix = string.sub(queue, 1, -#':queue' - 1)
    if turns[i] then
      end_turn(prefix)
    end
    told = {}
    if wake(prefix) then
      return answered(answer + 2)
    end
  end
  return answer
end

local function release(i)
  local holder = redis.pcall('GET', KEYS[i])
  if type(holder) == 'table' then
    -- A key of another type fails alone, not with all that are released beside it.
    return holder
  end
  local answer = look(i, holder)
  if answer == 1 then
    redis.call('DEL', KEYS[i])
  end
  return woken(i, answer)
end

if one then
  find_queues()
  return woken(1, one)
end
local holders = redis.pcall('MGET', unpack(KEYS))
-- The usual case: all of them are ours, and no client waits for any. Each call is for all of them,
-- because the calls take most of the time.
local are_ours = true
for i = 1, #KEYS do
  if holders[i] ~= ARGV[i] then
    are_ours = false
    break
  end
end
if are_ours and not is_waited_for() then
  if redis.call('DEL', unpack(KEYS)) == #KEYS then
    return 1
  end
  -- A lock was named twice. What follows goes by what was there before.
end
find_queues()
local answers, ours, gone = {}, {}, {}
for i = 1, #KEYS do
  if gone[KEYS[i]] then
    -- The lock was released twice at once.
    answers[i] = 0
  elseif holders[i] then
    answers[i] = look(i, holders[i])
    if answers[i] == 1 then
      ours[#ours + 1] = KEYS[i]
      gone[KEYS[i]] = true
    end
  else
    -- It is not there, or of another type, or this user may not read several keys at once.
    answers[i] = release(i)
  end
end
if #ours > 0 then
  redis.call('DEL', unpack(ours))
end
for i = 1, #KEYS do
  if holders[i] then
    answers[i] = woken(i, answers[i])
  end
end
return answers
