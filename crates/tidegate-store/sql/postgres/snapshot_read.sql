-- Reads streams' snapshots by key.
--
-- $1 stream   $2 kind (arrays of one length)
-- Locks nothing. Index: the primary key. Row order is not promised.
select snapshot.stream, snapshot.kind, snapshot.version, snapshot.body
  from snapshot
  join unnest($1::bigint[], $2::text[])
       as wanted(stream, kind)
    on snapshot.stream = wanted.stream
   and snapshot.kind = wanted.kind
