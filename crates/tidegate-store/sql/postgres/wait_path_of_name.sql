-- Reads the paths that waits for an event of a name are filed under.
--
-- $1 ws   $2 name   $3 how many (arrays: one place for each scan)
-- Locks nothing. Index: the primary key.
-- Returns the scan's place first, from 1.
select wanted.n, found.ws, found.name, found.path
  from unnest($1::text[], $2::text[], $3::bigint[])
       with ordinality as wanted(ws, name, most, n)
 cross join lateral (
        select wait_path.ws, wait_path.name, wait_path.path
          from wait_path
         where wait_path.ws = wanted.ws
           and wait_path.name = wanted.name
         order by wait_path.path
         limit wanted.most
       ) as found
 order by wanted.n, found.path
