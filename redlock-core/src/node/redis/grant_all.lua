-- Sets the locks of a set if all of them are free, or none of them.
--
-- KEYS the locks   ARGV[1] our value   ARGV[2] how long they live, in ms
-- Answers 1 if they are set, -1 if not all of them are free.
if redis.call('EXISTS', unpack(KEYS)) > 0 then
  return -1
end
for i = 1, #KEYS do
  redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
end
return 1
