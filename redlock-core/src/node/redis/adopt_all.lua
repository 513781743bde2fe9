-- Takes over a set that its holder has handed to another client, if all of it is there: gives the locks
-- our value, and lets them live for at least ARGV[3] milliseconds from now. It may be asked again: locks that have
-- our value already are ours.
--
-- KEYS the locks   ARGV[1] the token of the old value, with the dot behind it   ARGV[2] our value
-- ARGV[3] milliseconds
-- Answers 1 if it is done, 0 if not all of them are there, -1 if some have another value.
local answer = 1
local holders = redis.call('MGET', unpack(KEYS))
for i = 1, #KEYS do
  if not holders[i] then
    answer = math.min(answer, 0)
  elseif holders[i] ~= ARGV[2] and string.sub(holders[i], 1, #ARGV[1]) ~= ARGV[1] then
    answer = -1
  end
end
if answer < 1 then
  return answer
end
for i = 1, #KEYS do
  -- Rule 7: it never shortens.
  local left = math.max(redis.call('PTTL', KEYS[i]), tonumber(ARGV[3]))
  -- A server without memory takes the value behind a write that needs none.
  redis.call('PEXPIRE', KEYS[i], left)
  redis.call('SET', KEYS[i], ARGV[2], 'PX', left)
end
return 1
