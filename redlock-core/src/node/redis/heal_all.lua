-- Sets again what is missing of a set that a quorum of nodes has confirmed, unless another client has
-- one of its locks.
--
-- KEYS the locks   ARGV[1] our value   ARGV[2] how long they live at least, in ms
-- Answers 1 if all of them are ours, -1 if nothing was done.
local answer, holders = look(#KEYS, ARGV[1])
if answer == -1 then
  return -1
end
for i = 1, #KEYS do
  if not holders[i] then
    redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
  elseif redis.call('PTTL', KEYS[i]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
  end
end
return 1
