-- name: wait_path_of_name
-- Reads the paths at which waits for an event name expect a value.
--
-- $1 ws   $2 the event's name   $3 limit (arrays: one element per scan)
-- Locks nothing. Index: the primary key.
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::text[], $2::text[], $3::bigint[])
       with ordinality as wanted(ws, name, most, n)
 cross join lateral (
        select {wait_path.columns}
          from wait_path
         where wait_path.ws = wanted.ws
           and wait_path.name = wanted.name
         order by wait_path.path
         limit wanted.most
       ) as found
 order by wanted.n, found.path
