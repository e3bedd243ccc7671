-- Reads workspaces' streams by name, after a given one.
--
-- $1 ws   $2 after   $3 limit (arrays: one element per scan)
-- Locks nothing. Index: the primary key.
-- First column: index of the scan, from 1.
select wanted.n, found.ws, found.name, found.id, found.head, found.closed
  from unnest($1::text[], $2::text[], $3::bigint[])
       with ordinality as wanted(ws, after, most, n)
 cross join lateral (
        select stream.ws, stream.name, stream.id, stream.head, stream.closed
          from stream
         where stream.ws = wanted.ws
           and stream.name > wanted.after
         order by stream.name
         limit wanted.most
       ) as found
 order by wanted.n, found.name
