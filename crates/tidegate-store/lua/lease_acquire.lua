-- Takes a lease, unless somebody else has it.
--
-- KEYS[1] the lease   KEYS[2] the last fence given out under this prefix
-- ARGV[1] holder   ARGV[2] time to live (ms)
-- Answers {fence, until (µs), ''}, or {0, time left (ms), holder} where another has it.
--
-- A lease is a key that expires, so that nothing is left of it; its value is `fence:holder`. The
-- counter is one for all names and never expires: what it counts must outlive every lease. Where
-- it is lost all the same (a failover, a flush, a restart without persistence), the server's
-- clock stands in for it: a fence is at least the moment in microseconds at which it was drawn.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local value = redis.call('GET', KEYS[1])
if value then
  local holder = string.match(value, '^%d+:(.*)$')
  if holder ~= ARGV[1] then
    return {0, redis.call('PTTL', KEYS[1]), holder}
  end
end
local last = tonumber(redis.call('GET', KEYS[2]) or 0)
local fence = math.max(now, last + 1)
-- In full: Lua writes large numbers with an exponent.
local text = string.format('%.0f', fence)
redis.call('SET', KEYS[2], text)
redis.call('SET', KEYS[1], text .. ':' .. ARGV[1], 'PX', ARGV[2])
return {fence, now + ARGV[2] * 1000, ''}
