-- Shared by the scripts that draw numbers for a set: they are sent with draw.lua and this in front.
--
-- The second half of the keys are the counters. A number for the set is larger than all that any of
-- its counters has given out.
local function draw_all(floor, count)
  local first = 0
  for i = #KEYS / 2 + 1, #KEYS do
    local number, problem = draw(KEYS[i], floor, count)
    if problem then
      return nil, problem
    end
    first = math.max(first, number)
  end
  return first
end

local function keep_all(last, life)
  for i = #KEYS / 2 + 1, #KEYS do
    keep(KEYS[i], last, life)
  end
end
