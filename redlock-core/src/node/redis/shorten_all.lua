-- Lets the locks of a set that are still ours live for exactly ARGV[2] milliseconds from now, the rest
-- of their min_hold; deletes them when nothing is left of that.
--
-- KEYS the locks   ARGV[1] our value   ARGV[2] milliseconds
-- Answers 1 if it is done, 0 if not all of them were there, -1 if some had another client's value.
local answer, holders = look(#KEYS, ARGV[1])
for i = 1, #KEYS do
  if holders[i] == ARGV[1] then
    if tonumber(ARGV[2]) > 0 then
      redis.call('PEXPIRE', KEYS[i], ARGV[2])
    else
      redis.call('DEL', KEYS[i])
    end
  end
end
return answer
