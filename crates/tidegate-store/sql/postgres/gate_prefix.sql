-- Reads the gates whose key begins with a prefix.
--
-- $1 start   $2 stop   $3 limit (arrays: one element per scan)
-- Locks nothing. Index: the primary key.
-- First column: index of the scan, from 1.
select wanted.n, found.key, found.id, found.at, found.due, found.state, found.event
  from unnest($1::bytea[], $2::bytea[], $3::bigint[])
       with ordinality as wanted(start, stop, most, n)
 cross join lateral (
        select gate.key, gate.id, gate.at, gate.due, gate.state, gate.event
          from gate
         where gate.key >= wanted.start
           and gate.key < wanted.stop
         order by gate.key
         limit wanted.most
       ) as found
 order by wanted.n, found.key
