-- Takes over a lock that its holder has handed to another client: gives it our value, and lets it live
-- for at least ARGV[3] milliseconds from now. It may be asked again: a lock that has our value already is ours.
--
-- KEYS[1] the lock   ARGV[1] the token of the old value, with the dot behind it   ARGV[2] our value
-- ARGV[3] milliseconds
-- Answers 1 if it is done, 0 if there is no such lock, -1 if it has another value.
local holder = redis.call('GET', KEYS[1])
if not holder then
  return 0
end
if holder ~= ARGV[2] and string.sub(holder, 1, #ARGV[1]) ~= ARGV[1] then
  return -1
end
-- Rule 7: it never shortens.
local left = math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[3]))
-- A server without memory takes the value behind a write that needs none.
redis.call('PEXPIRE', KEYS[1], left)
redis.call('SET', KEYS[1], ARGV[2], 'PX', left)
return 1
