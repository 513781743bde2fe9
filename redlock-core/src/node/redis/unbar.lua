-- Takes back what a writer has said with `bar.lua`.
--
-- KEYS[1] the lock   KEYS[2] the sign   ARGV[1] the writer
-- Answers 1 if it is done, 0 if there is no sign, -1 if it is another writer's.
local sign = redis.call('GET', KEYS[2])
if not sign then
  return 0
end
if string.match(sign, '^%d+:(.*)$') ~= ARGV[1] then
  return -1
end
redis.call('DEL', KEYS[2])
return 1
