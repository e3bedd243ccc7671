-- Gives stream heads new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are locked by stream_lock.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with changed as (
    update stream
       set id     = new.id,
           head   = new.head,
           closed = new.closed
      from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[])
           as new(ws, name, id, head, closed)
     where stream.ctid = (
            select found.ctid
              from stream as found
             where (found.ws, found.name) between (new.ws, new.name) and (new.ws, new.name)
             order by found.ws, found.name
             limit 1
           )
    returning 1
)
select expect_rows('stream', count(*), cardinality($1))
  from changed
