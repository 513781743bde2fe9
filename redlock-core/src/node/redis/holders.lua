-- Shared by the scripts for sets: they are sent with this in front.
--
-- The locks are the first keys of a call. Returns 1 all have our value, 0 not all of them are there,
-- -1 some have another value; and the values.
local function look(locks, value)
  local answer = 1
  local holders = redis.call('MGET', unpack(KEYS, 1, locks))
  for i = 1, locks do
    if holders[i] ~= value then
      -- A key of another type reads as missing, and is not.
      local is_missing = not holders[i] and redis.call('EXISTS', KEYS[i]) == 0
      answer = math.min(answer, is_missing and 0 or -1)
    end
  end
  return answer, holders
end
