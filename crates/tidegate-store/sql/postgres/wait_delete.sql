-- Deletes waits by key.
--
-- $1 ws   $2 name   $3 path   $4 value   $5 run   $6 step (arrays of one length)
-- The rows are deleted under the lock of the row that owns them.
-- A row that is missing is an error (R2), raised here because COMMIT is already on its way.
with gone as (
    delete from wait
     using unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::text[])
           as old(ws, name, path, value, run, step)
     where wait.ws = old.ws
       and wait.name = old.name
       and wait.path = old.path
       and wait.value = old.value
       and wait.run = old.run
       and wait.step = old.step
    returning 1
)
select expect_rows('wait', count(*), cardinality($1))
  from gone
