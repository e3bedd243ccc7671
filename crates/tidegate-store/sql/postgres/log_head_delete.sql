-- Deletes log heads by key.
--
-- $1 ws (arrays of one length)
-- The rows are locked by log_head_lock.
-- A row that is missing is an error (R2), raised here because COMMIT is already on its way.
with gone as (
    delete from log_head
     using unnest($1::text[])
           as old(ws)
     where log_head.ws = old.ws
    returning 1
)
select expect_rows('log_head', count(*), cardinality($1))
  from gone
