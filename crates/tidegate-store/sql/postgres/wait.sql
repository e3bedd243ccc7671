-- name: wait_of_value
-- Reads the waits for an event name that expect a value at a path, after a given wait.
--
-- $1 ws   $2 the event's name   $3 path   $4 value   $5 after this run   $6 and this step of it
-- $7 limit (arrays: one element per scan)
-- Locks nothing. Index: the primary key.
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::text[],
              $7::bigint[])
       with ordinality as wanted(ws, name, path, value, run, step, most, n)
 cross join lateral (
        select {wait.columns}
          from wait
         where wait.ws = wanted.ws
           and wait.name = wanted.name
           and wait.path = wanted.path
           and wait.value = wanted.value
           and (wait.run, wait.step) > (wanted.run, wanted.step)
         order by wait.run, wait.step
         limit wanted.most
       ) as found
 order by wanted.n, found.run, found.step
