-- Reads workspaces' stream events after a global position.
--
-- $1 ws   $2 after   $3 limit (arrays: one element per scan)
-- Locks nothing. Index: the unique key (ws, pos).
-- First column: index of the scan, from 1.
select wanted.n, found.stream, found.version, found.ws, found.pos, found.seq,
       found.salt, found.name, found.at, found.data, found.meta
  from unnest($1::text[], $2::bigint[], $3::bigint[])
       with ordinality as wanted(ws, after, most, n)
 cross join lateral (
        select log.stream, log.version, log.ws, log.pos, log.seq, log.salt, log.name,
               log.at, log.data, log.meta
          from log
         where log.ws = wanted.ws
           and log.pos > wanted.after
         order by log.pos
         limit wanted.most
       ) as found
 order by wanted.n, found.pos
