-- Lets a lease last longer, unless it was lost.
--
-- KEYS[1] the lease
-- ARGV[1] fence:holder   ARGV[2] time to live (ms)
-- Answers until (µs), or 0 where it expired, was released, or was acquired anew.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local time = redis.call('TIME')
return time[1] * 1000000 + time[2] + ARGV[2] * 1000
