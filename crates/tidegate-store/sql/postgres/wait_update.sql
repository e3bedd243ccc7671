-- Finds waits by key: all of their columns are the key, so that nothing can change.
--
-- $1 ws   $2 name   $3 path   $4 value   $5 run   $6 step (arrays of one length)
-- A row that is missing is an error (R2), raised here because COMMIT is already on its way.
select expect_rows('wait', count(*), cardinality($1))
  from wait
  join unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::text[])
       as wanted(ws, name, path, value, run, step)
    on wait.ws = wanted.ws
   and wait.name = wanted.name
   and wait.path = wanted.path
   and wait.value = wanted.value
   and wait.run = wanted.run
   and wait.step = wanted.step
