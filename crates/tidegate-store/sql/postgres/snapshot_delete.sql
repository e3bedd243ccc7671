-- Deletes streams' snapshots by key.
--
-- $1 stream   $2 kind (arrays of one length)
-- The rows are deleted under the lock of the row that owns them.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with gone as (
    delete from snapshot
     using unnest($1::bigint[], $2::text[])
           as old(stream, kind)
     where snapshot.ctid = (
            select found.ctid
              from snapshot as found
             where (found.stream, found.kind)
                   between (old.stream, old.kind)
                       and (old.stream, old.kind)
             order by found.stream, found.kind
             limit 1
           )
    returning 1
)
select expect_rows('snapshot', count(*), cardinality($1))
  from gone
