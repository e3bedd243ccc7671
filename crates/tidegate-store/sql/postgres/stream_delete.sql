-- Deletes stream heads by key.
--
-- $1 ws   $2 name (arrays of one length)
-- The rows are locked by stream_lock.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with gone as (
    delete from stream
     using unnest($1::text[], $2::text[])
           as old(ws, name)
     where stream.ctid = (
            select found.ctid
              from stream as found
             where (found.ws, found.name) between (old.ws, old.name) and (old.ws, old.name)
             order by found.ws, found.name
             limit 1
           )
    returning 1
)
select expect_rows('stream', count(*), cardinality($1))
  from gone
