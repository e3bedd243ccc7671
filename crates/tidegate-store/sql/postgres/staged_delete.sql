-- Deletes operations that runs have staged by key.
--
-- $1 run   $2 n (arrays of one length)
-- The rows are deleted under the lock of the row that owns them.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with gone as (
    delete from staged
     using unnest($1::bigint[], $2::bigint[])
           as old(run, n)
     where staged.ctid = (
            select found.ctid
              from staged as found
             where (found.run, found.n) between (old.run, old.n) and (old.run, old.n)
             order by found.run, found.n
             limit 1
           )
    returning 1
)
select expect_rows('staged', count(*), cardinality($1))
  from gone
