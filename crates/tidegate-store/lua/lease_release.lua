-- Gives a lease back: compare and delete.
--
-- KEYS[1] the lease
-- ARGV[1] fence:holder
-- Answers 1, or 0 where it expired, was released before, or was acquired anew.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
