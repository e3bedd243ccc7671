-- name: snapshot_of_stream
-- Reads all snapshots of streams.
--
-- $1 stream   $2 limit (arrays: one element per scan)
-- Locks nothing. Index: the primary key.
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::bigint[], $2::bigint[])
       with ordinality as wanted(stream, most, n)
 cross join lateral (
        select {snapshot.columns}
          from snapshot
         where snapshot.stream = wanted.stream
         order by snapshot.kind
         limit wanted.most
       ) as found
 order by wanted.n, found.kind
