-- Raises all counters of a set to the last number of a range that other nodes have given more of.
--
-- All locks have to be ours, and all counters have to read what they read when they gave their numbers
-- to us, as in confirm.lua.
--
-- KEYS the locks, then their counters
-- ARGV[1] our value   ARGV[2] what the counters have to read   ARGV[3] what they are raised to
-- ARGV[4] how long the counters live, in ms
-- Answers 1 if it is done, 0 if not all of the locks are there, -1 if some have another value or a counter
-- reads otherwise.
local answer = look(#KEYS / 2, ARGV[1])
if answer < 1 then
  return answer
end
local counters = redis.call('MGET', unpack(KEYS, #KEYS / 2 + 1))
for i = 1, #KEYS / 2 do
  if counters[i] ~= ARGV[2] then
    return -1
  end
end
for i = #KEYS / 2 + 1, #KEYS do
  -- As in confirm.lua.
  redis.call('PEXPIRE', KEYS[i], ARGV[4])
  redis.call('SET', KEYS[i], ARGV[3], 'PX', ARGV[4])
end
return 1
