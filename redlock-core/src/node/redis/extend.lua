-- Lets a lock that is still ours live for at least ARGV[2] milliseconds from now.
--
-- KEYS[1] the lock   ARGV[1] our value   ARGV[2] milliseconds
-- Answers 1 it lives that long, 0 there is no such lock, -1 it is somebody else's.
local holder = redis.call('GET', KEYS[1])
if not holder then
  return 0
end
if holder ~= ARGV[1] then
  return -1
end
-- Rule 7: an extension never shortens. A key without expiry (-1) gets one: no lock is for ever.
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
