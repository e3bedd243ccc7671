-- Reads waits by key.
--
-- $1 ws   $2 name   $3 path   $4 value   $5 run   $6 step (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
select found.ws, found.name, found.path, found.value, found.run, found.step
  from unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::text[])
       as wanted(ws, name, path, value, run, step)
 cross join lateral (
        select wait.ws, wait.name, wait.path, wait.value, wait.run, wait.step
          from wait
         where (wait.ws, wait.name, wait.path, wait.value, wait.run, wait.step)
               between (wanted.ws, wanted.name, wanted.path, wanted.value, wanted.run, wanted.step)
                   and (wanted.ws, wanted.name, wanted.path, wanted.value, wanted.run, wanted.step)
         order by wait.ws, wait.name, wait.path, wait.value, wait.run, wait.step
         limit 1
       ) as found
