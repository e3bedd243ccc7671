-- Reads waits by key.
--
-- $1 ws   $2 name   $3 path   $4 value   $5 run   $6 step (arrays of one length)
-- Locks nothing. Index: the primary key. Row order is not promised.
select wait.ws, wait.name, wait.path, wait.value, wait.run, wait.step
  from wait
  join unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::text[])
       as wanted(ws, name, path, value, run, step)
    on wait.ws = wanted.ws
   and wait.name = wanted.name
   and wait.path = wanted.path
   and wait.value = wanted.value
   and wait.run = wanted.run
   and wait.step = wanted.step
