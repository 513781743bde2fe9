-- Shared by the scripts that give the turn to a waiter: they are sent with this in front.

-- A key that is written is pushed to the client that tracks it. It need not stay.
local function tell(key)
  redis.call('SET', key, 1)
  redis.call('DEL', key)
end

local function wake(prefix)
  local queue = prefix .. ':queue'
  -- A user without permission to read queues has no queue. That must not fail the release.
  local first = redis.pcall('ZRANGE', queue, 0, 0)[1]
  while first do
    redis.call('ZREM', queue, first)
    -- A waiter without this key has said nothing for as long as an entry lives.
    if redis.call('DEL', prefix .. ':alive:' .. first) == 1 then
      -- A server keeps what a client tracks until it is written: both keys are, for good.
      tell(prefix .. ':next:' .. first)
      tell(prefix .. ':turn:' .. first)
      local second = redis.call('ZRANGE', queue, 0, 0)[1]
      if second then
        tell(prefix .. ':next:' .. second)
      end
      return true
    end
    first = redis.call('ZRANGE', queue, 0, 0)[1]
  end
  return false
end
