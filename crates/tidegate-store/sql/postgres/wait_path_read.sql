-- Reads wait paths by key.
--
-- $1 ws   $2 name   $3 path (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
select found.ws, found.name, found.path
  from unnest($1::text[], $2::text[], $3::text[])
       as wanted(ws, name, path)
 cross join lateral (
        select wait_path.ws, wait_path.name, wait_path.path
          from wait_path
         where (wait_path.ws, wait_path.name, wait_path.path)
               between (wanted.ws, wanted.name, wanted.path)
                   and (wanted.ws, wanted.name, wanted.path)
         order by wait_path.ws, wait_path.name, wait_path.path
         limit 1
       ) as found
