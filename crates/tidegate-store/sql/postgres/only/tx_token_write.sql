-- Writes the transaction's token, by which a COMMIT whose answer was lost is looked up (spec R10).
--
-- $1 id of the token row   $2 token, drawn at random for this attempt
-- Locks the row until the end of the transaction, the wait for a synchronous standby included.
-- Last before COMMIT, so that a fence stops a server process for as long as possible.
-- Index: the primary key. Fails the transaction (TG002) if the row is closed or swept.
with changed as (
  update tx_token
     set token = $2::bigint,
         at = clock_timestamp()
   where id = $1::bigint
     and closed = 0
  returning 1
)
select expect_rows('tx_token', count(*), 1)
  from changed
