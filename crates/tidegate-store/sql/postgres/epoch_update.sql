-- Gives epochs new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are held still by the latch of the workspace.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with changed as (
    update epoch
       set n = new.n
      from unnest($1::text[], $2::bigint[])
           as new(ws, n)
     where epoch.ctid = (
            select found.ctid
              from epoch as found
             where found.ws between new.ws and new.ws
             order by found.ws
             limit 1
           )
    returning 1
)
select expect_rows('epoch', count(*), cardinality($1))
  from changed
