-- Deletes log heads by key.
--
-- $1 ws (arrays of one length)
-- The rows are locked by log_head_lock.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with gone as (
    delete from log_head
     using unnest($1::text[])
           as old(ws)
     where log_head.ctid = (
            select found.ctid
              from log_head as found
             where found.ws between old.ws and old.ws
             order by found.ws
             limit 1
           )
    returning 1
)
select expect_rows('log_head', count(*), cardinality($1))
  from gone
