-- Lets a lock that is still ours live for at least ARGV[2] milliseconds from now.
--
-- KEYS[1] the lock   ARGV[1] our value   ARGV[2] milliseconds
-- Answers what was left of it as PTTL does (-1 for ever), -2 if there is no such lock, -3 if it has
-- another client's value.
local holder = redis.call('GET', KEYS[1])
if not holder then
  return -2
end
if holder ~= ARGV[1] then
  return -3
end
local left = redis.call('PTTL', KEYS[1])
-- Rule 7: an extension never shortens. A key without expiry (-1) gets one: no lock is for ever.
if left < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return left
