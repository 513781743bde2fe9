-- Deletes locks that are still ours, and gives the turn to the first waiter in the queue of each
-- whose queue is kept here.
--
-- KEYS[i] a lock   ARGV[2i-1] our value   ARGV[2i] the prefix of its queue's keys, or empty
-- Answers for each lock: 1 it is deleted, 0 there was no such lock, -1 it has another value; 2 more
-- when a waiter got the turn. One lock is answered by the number alone.

local function release(i)
  local holder = redis.pcall('GET', KEYS[i])
  local answer = 0
  if type(holder) == 'table' then
    -- A key of another type fails alone, not with all that are released beside it.
    return holder
  end
  if holder then
    if holder ~= ARGV[2 * i - 1] then
      return -1
    end
    redis.call('DEL', KEYS[i])
    answer = 1
  end
  if ARGV[2 * i] ~= '' and wake(ARGV[2 * i]) then
    answer = answer + 2
  end
  return answer
end

if #KEYS == 1 then
  return release(1)
end
local answers = {}
for i = 1, #KEYS do
  answers[i] = release(i)
end
return answers
