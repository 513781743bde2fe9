-- Finds a permit that no client has on this node.
--
-- KEYS[1] one of the permits   ARGV[1] the beginning of all their keys   ARGV[2] how many there are
-- ARGV[3] the number to begin with
-- Answers the number of the permit, or -1 there is none.
local count = tonumber(ARGV[2])

local function number(place)
  return (ARGV[3] + place) % count
end

-- Whether no permit at these places is free. One call, however many there are.
local function all_taken(first, last)
  local keys = {}
  for place = first, last do
    keys[#keys + 1] = ARGV[1] .. string.format('%.0f', number(place))
  end
  return redis.call('EXISTS', unpack(keys)) == #keys
end

-- The usual case is that one of the first is free. Lua can pass on some thousands of values at once.
local first, size = 0, 4
while first < count do
  local last = math.min(first + size, count) - 1
  if not all_taken(first, last) then
    -- Halves what contains a free one until it is the only one.
    while first < last do
      local middle = math.floor((first + last) / 2)
      if all_taken(first, middle) then
        first = middle + 1
      else
        last = middle
      end
    end
    return number(first)
  end
  first, size = last + 1, math.min(4 * size, 1000)
end
return -1
