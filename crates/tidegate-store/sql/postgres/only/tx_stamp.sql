-- Reads the clock, draws a block of sequence numbers and names the transaction.
--
-- Runs after all locks: `now()` is the start of the transaction and would go backwards between
-- two holders of a lock (R8), and so would numbers drawn before it was taken. The name is what a
-- lost COMMIT is looked up by (R10). The sequence grows by 4096, a whole block.
select clock(),
       nextval('block'),
       pg_current_xact_id()::text
