-- Deletes operations that runs have staged by key.
--
-- $1 run   $2 n (arrays of one length)
-- The rows are deleted under the lock of the row that owns them.
-- A row that is missing is an error (R2), raised here because COMMIT is already on its way.
with gone as (
    delete from staged
     using unnest($1::bigint[], $2::bigint[])
           as old(run, n)
     where staged.run = old.run
       and staged.n = old.n
    returning 1
)
select expect_rows('staged', count(*), cardinality($1))
  from gone
