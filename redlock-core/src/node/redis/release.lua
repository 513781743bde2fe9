-- Deletes a lock that is still ours.
--
-- KEYS[1] the lock   ARGV[1] our value
-- Answers 1 it is deleted, 0 there was no such lock, -1 it is somebody else's.
local holder = redis.call('GET', KEYS[1])
if not holder then
  return 0
end
if holder ~= ARGV[1] then
  return -1
end
redis.call('DEL', KEYS[1])
return 1
