-- Lets the locks of a set live for at least ARGV[2] milliseconds from now, if all are still ours.
--
-- KEYS the locks   ARGV[1] our value   ARGV[2] milliseconds
-- Answers what was left of the lock that expires first as PTTL does (-1 for ever), -2 if not all of them
-- are there, -3 if some have another client's value.
local answer = look(#KEYS, ARGV[1])
if answer < 1 then
  return answer - 2
end
local least = -1
for i = 1, #KEYS do
  local left = redis.call('PTTL', KEYS[i])
  -- Rule 7: an extension never shortens. A key without expiry (-1) gets one: no lock is for ever.
  if left < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
  end
  if left >= 0 and (least < 0 or left < least) then
    least = left
  end
end
return least
