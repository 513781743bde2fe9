-- Lets a lock that is still ours live for exactly ARGV[2] milliseconds from now, the rest of its
-- min_hold; deletes it when nothing is left of that.
--
-- KEYS[1] the lock   ARGV[1] our value   ARGV[2] milliseconds
-- Answers 1 if it is done, 0 if there was no such lock, -1 if it has another client's value.
local holder = redis.call('GET', KEYS[1])
if not holder then
  return 0
end
if holder ~= ARGV[1] then
  return -1
end
if tonumber(ARGV[2]) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
else
  redis.call('DEL', KEYS[1])
end
return 1
