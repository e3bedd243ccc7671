-- Deletes stream events by key.
--
-- $1 stream   $2 version (arrays of one length)
-- The rows are deleted under the lock of the row that owns them.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with gone as (
    delete from log
     using unnest($1::bigint[], $2::bigint[])
           as old(stream, version)
     where log.ctid = (
            select found.ctid
              from log as found
             where (found.stream, found.version)
                   between (old.stream, old.version)
                       and (old.stream, old.version)
             order by found.stream, found.version
             limit 1
           )
    returning 1
)
select expect_rows('log', count(*), cardinality($1))
  from gone
