-- Adds a reader to a lock that no writer has.
--
-- KEYS[1] the lock   KEYS[2] the barrier of a writer that waits, or the lock again to pass it
-- ARGV[1] our value   ARGV[2] how long the reader lives, in ms   ARGV[3] its place in the queue, or 0
-- Answers 1 if it is done, -1 if a writer has the lock, or waits for it before this reader, or the reader is
-- there already: it has asked under another name of this server, which has one vote.

-- Whether a writer waits before this reader.
local function is_barred(place)
  local barrier = redis.call('GET', KEYS[2])
  return barrier and (place == 0 or place > tonumber(string.match(barrier, '^%d+') or 0))
end

if not is_free_of_writers(KEYS[1]) then
  return -1
end
local now = clock()
local is_new = KEYS[2] ~= KEYS[1]
local there_until = redis.call('ZSCORE', KEYS[1], ARGV[1])
local is_there = there_until and tonumber(there_until) > now
if is_new and (is_barred(tonumber(ARGV[3])) or is_there) then
  return -1
end
set(KEYS[1], ARGV[1], now + ARGV[2])
keep(KEYS[1], now)
return 1
