-- Lets a reader live for at least ARGV[2] milliseconds from now.
--
-- KEYS[1] the lock   ARGV[1] our value   ARGV[2] milliseconds
-- Answers what was left of it, -2 if there is no such reader, -3 if a writer has the lock.
if not is_free_of_writers(KEYS[1]) then
  return -3
end
local now = clock()
local at = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not at or now > tonumber(at) then
  return -2
end
-- A server without memory refuses a set, but not behind a write that needs none: readers that are there must be
-- renewed.
keep(KEYS[1], now)
-- Rule 7: an extension never shortens.
if at - now < tonumber(ARGV[2]) then
  set(KEYS[1], ARGV[1], now + ARGV[2])
  keep(KEYS[1], now)
end
return at - now
