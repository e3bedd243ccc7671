-- Finds wait paths by key: all of their columns are the key, so that nothing can change.
--
-- $1 ws   $2 name   $3 path (arrays of one length)
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
select expect_rows('wait_path', count(*), cardinality($1))
  from unnest($1::text[], $2::text[], $3::text[])
       as wanted(ws, name, path)
 cross join lateral (
        select 1
          from wait_path
         where (wait_path.ws, wait_path.name, wait_path.path)
               between (wanted.ws, wanted.name, wanted.path)
                   and (wanted.ws, wanted.name, wanted.path)
         order by wait_path.ws, wait_path.name, wait_path.path
         limit 1
       ) as found
