-- Gives stream heads new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are locked by stream_lock.
-- A row that is missing is an error (R2), raised here because COMMIT is already on its way.
with changed as (
    update stream
       set id     = new.id,
           head   = new.head,
           closed = new.closed
      from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[])
           as new(ws, name, id, head, closed)
     where stream.ws = new.ws
       and stream.name = new.name
    returning 1
)
select expect_rows('stream', count(*), cardinality($1))
  from changed
