-- Deletes waits by key.
--
-- $1 ws   $2 name   $3 path   $4 value   $5 run   $6 step (arrays of one length)
-- The rows are deleted under the lock of the row that owns them.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with gone as (
    delete from wait
     using unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::text[])
           as old(ws, name, path, value, run, step)
     where wait.ctid = (
            select found.ctid
              from wait as found
             where (found.ws, found.name, found.path, found.value, found.run, found.step)
                   between (old.ws, old.name, old.path, old.value, old.run, old.step)
                       and (old.ws, old.name, old.path, old.value, old.run, old.step)
             order by found.ws, found.name, found.path, found.value, found.run, found.step
             limit 1
           )
    returning 1
)
select expect_rows('wait', count(*), cardinality($1))
  from gone
