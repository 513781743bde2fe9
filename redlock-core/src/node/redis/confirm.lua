-- Raises the counter beside a lock to the last number of a range that other nodes have given more of.
--
-- The lock has to be ours, and the counter has to read what it read when it gave its numbers to us. The
-- value alone proves nothing: a lock that was lost and set again (rule 8) has it too, although another
-- client may have drawn numbers in between.
--
-- KEYS[1] the lock   KEYS[2] its counter
-- ARGV[1] our value   ARGV[2] what the counter has to read   ARGV[3] what it is raised to
-- ARGV[4] how long the counter lives, in ms
-- Answers 1 if it is done, 0 if there is no such lock, -1 if it has another value or the counter reads
-- otherwise.
local holder = redis.pcall('GET', KEYS[1])
if not holder then
  return 0
end
if type(holder) == 'table' then
  -- Readers have it. An error about the counter is none about the lock.
  return string.find(holder.err, '^WRONGTYPE') and -1 or holder
end
if holder ~= ARGV[1] or redis.call('GET', KEYS[2]) ~= ARGV[2] then
  return -1
end
-- A server without memory keeps the number behind a write that needs none.
redis.call('PEXPIRE', KEYS[2], ARGV[4])
redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
return 1
