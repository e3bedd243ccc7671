-- Reads streams' snapshots by key.
--
-- $1 stream   $2 kind (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
select found.stream, found.kind, found.version, found.body
  from unnest($1::bigint[], $2::text[])
       as wanted(stream, kind)
 cross join lateral (
        select snapshot.stream, snapshot.kind, snapshot.version, snapshot.body
          from snapshot
         where (snapshot.stream, snapshot.kind)
               between (wanted.stream, wanted.kind)
                   and (wanted.stream, wanted.kind)
         order by snapshot.stream, snapshot.kind
         limit 1
       ) as found
