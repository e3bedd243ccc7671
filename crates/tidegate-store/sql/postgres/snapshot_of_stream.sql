-- Reads all snapshots of streams.
--
-- $1 stream   $2 limit (arrays: one element per scan)
-- Locks nothing. Index: the primary key.
-- First column: index of the scan, from 1.
select wanted.n, found.stream, found.kind, found.version, found.body
  from unnest($1::bigint[], $2::bigint[])
       with ordinality as wanted(stream, most, n)
 cross join lateral (
        select snapshot.stream, snapshot.kind, snapshot.version, snapshot.body
          from snapshot
         where snapshot.stream = wanted.stream
         order by snapshot.kind
         limit wanted.most
       ) as found
 order by wanted.n, found.kind
