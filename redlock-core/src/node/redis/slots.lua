-- Finds a permit that no client has on this node.
--
-- KEYS[1] one of the permits   ARGV[1] the beginning of all their keys   ARGV[2] how many there are
-- ARGV[3] the number to begin with
-- Answers the number of the permit, or -1 there is none.
for i = 0, ARGV[2] - 1 do
  local slot = string.format('%.0f', (ARGV[3] + i) % ARGV[2])
  if redis.call('EXISTS', ARGV[1] .. slot) == 0 then
    return tonumber(slot)
  end
end
return -1
