-- Deletes runs by key.
--
-- $1 seq (arrays of one length)
-- The rows are locked by run_lock or run_ready_lock.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with gone as (
    delete from run
     using unnest($1::bigint[])
           as old(seq)
     where run.ctid = (
            select found.ctid
              from run as found
             where found.seq between old.seq and old.seq
             order by found.seq
             limit 1
           )
    returning 1
)
select expect_rows('run', count(*), cardinality($1))
  from gone
