-- Finds waits by key: all of their columns are the key, so that nothing can change.
--
-- $1 ws   $2 name   $3 path   $4 value   $5 run   $6 step (arrays of one length)
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
select expect_rows('wait', count(*), cardinality($1))
  from unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::text[])
       as wanted(ws, name, path, value, run, step)
 cross join lateral (
        select 1
          from wait
         where (wait.ws, wait.name, wait.path, wait.value, wait.run, wait.step)
               between (wanted.ws, wanted.name, wanted.path, wanted.value, wanted.run, wanted.step)
                   and (wanted.ws, wanted.name, wanted.path, wanted.value, wanted.run, wanted.step)
         order by wait.ws, wait.name, wait.path, wait.value, wait.run, wait.step
         limit 1
       ) as found
