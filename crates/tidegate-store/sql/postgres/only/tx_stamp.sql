-- Reads the clock and draws a block of sequence numbers.
--
-- Runs after all locks: `now()` is the start of the transaction and would go backwards between two
-- holders of a lock (spec R8), and so would numbers drawn before the lock was taken. The sequence
-- grows by 4096, a whole block.
select clock(),
       nextval('block')
