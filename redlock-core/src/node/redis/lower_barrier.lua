-- Lowers the barrier that a writer has raised with `raise_barrier.lua`.
--
-- KEYS[1] the lock   KEYS[2] the barrier   ARGV[1] the writer
-- Answers 1 if it is done, 0 if there is no barrier, -1 if it is another writer's.
local barrier = redis.call('GET', KEYS[2])
if not barrier then
  return 0
end
if string.match(barrier, '^%d+:(.*)$') ~= ARGV[1] then
  return -1
end
redis.call('DEL', KEYS[2])
return 1
