-- Deletes items of batches by key.
--
-- $1 run   $2 n (arrays of one length)
-- The rows are deleted under the lock of the row that owns them.
-- A row that is missing is an error (R2), raised here because COMMIT is already on its way.
with gone as (
    delete from item
     using unnest($1::bigint[], $2::bigint[])
           as old(run, n)
     where item.run = old.run
       and item.n = old.n
    returning 1
)
select expect_rows('item', count(*), cardinality($1))
  from gone
