-- Deletes steps by key.
--
-- $1 run   $2 id (arrays of one length)
-- The rows are deleted under the lock of the row that owns them.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with gone as (
    delete from step
     using unnest($1::bigint[], $2::text[])
           as old(run, id)
     where step.ctid = (
            select found.ctid
              from step as found
             where (found.run, found.id) between (old.run, old.id) and (old.run, old.id)
             order by found.run, found.id
             limit 1
           )
    returning 1
)
select expect_rows('step', count(*), cardinality($1))
  from gone
