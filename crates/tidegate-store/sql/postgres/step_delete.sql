-- Deletes steps by key.
--
-- $1 run   $2 id (arrays of one length)
-- The rows are deleted under the lock of the row that owns them.
-- A row that is missing is an error (R2), raised here because COMMIT is already on its way.
with gone as (
    delete from step
     using unnest($1::bigint[], $2::text[])
           as old(run, id)
     where step.run = old.run
       and step.id = old.id
    returning 1
)
select expect_rows('step', count(*), cardinality($1))
  from gone
