-- Gives streams' snapshots new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are written under the lock of the row that owns them.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with changed as (
    update snapshot
       set version = new.version,
           body    = new.body
      from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[])
           as new(stream, kind, version, body)
     where snapshot.ctid = (
            select found.ctid
              from snapshot as found
             where (found.stream, found.kind)
                   between (new.stream, new.kind)
                       and (new.stream, new.kind)
             order by found.stream, found.kind
             limit 1
           )
    returning 1
)
select expect_rows('snapshot', count(*), cardinality($1))
  from changed
