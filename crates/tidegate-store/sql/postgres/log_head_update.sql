-- Gives log heads new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are locked by log_head_lock.
-- A row that is missing is an error (R2), raised here because COMMIT is already on its way.
with changed as (
    update log_head
       set pos = new.pos
      from unnest($1::text[], $2::bigint[])
           as new(ws, pos)
     where log_head.ws = new.ws
    returning 1
)
select expect_rows('log_head', count(*), cardinality($1))
  from changed
