-- Inserts streams' snapshots.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into snapshot
       (stream, kind, version, body)
select new.stream, new.kind, new.version, new.body
  from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[])
       as new(stream, kind, version, body)
