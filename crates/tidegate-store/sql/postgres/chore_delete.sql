-- Deletes chores by key.
--
-- $1 seq (arrays of one length)
-- The rows are locked by chore_lock.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with gone as (
    delete from chore
     using unnest($1::bigint[])
           as old(seq)
     where chore.ctid = (
            select found.ctid
              from chore as found
             where found.seq between old.seq and old.seq
             order by found.seq
             limit 1
           )
    returning 1
)
select expect_rows('chore', count(*), cardinality($1))
  from gone
