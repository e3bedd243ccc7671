-- Gives log heads new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are locked by log_head_lock.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with changed as (
    update log_head
       set pos = new.pos
      from unnest($1::text[], $2::bigint[])
           as new(ws, pos)
     where log_head.ctid = (
            select found.ctid
              from log_head as found
             where found.ws between new.ws and new.ws
             order by found.ws
             limit 1
           )
    returning 1
)
select expect_rows('log_head', count(*), cardinality($1))
  from changed
