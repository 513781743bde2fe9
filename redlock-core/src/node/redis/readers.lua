-- Shared by the scripts of readers: they are sent with this in front.
--
-- The readers of a lock are the members of a sorted set under its key, by when each of them expires. As
-- long as one is there, a writer finds the key taken.

-- The server's own time in milliseconds, which expiries go by as well.
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Whether the key has readers, or nothing. A writer's key is a string.
local function is_free_of_writers(key)
  local kind = redis.call('TYPE', key).ok
  return kind == 'zset' or kind == 'none'
end

-- Forgets the readers that have expired. The key lives for as long as the last of the others.
local function keep(key, now)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', '(' .. string.format('%.0f', now))
  local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
  if last then
    redis.call('PEXPIRE', key, string.format('%.0f', math.max(last - now, 1)))
  end
end

-- Lets a reader live until then.
local function set(key, reader, at)
  redis.call('ZADD', key, string.format('%.0f', at), reader)
end
