-- Deletes epochs by key.
--
-- $1 ws (arrays of one length)
-- The rows are held still by the latch of the workspace.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with gone as (
    delete from epoch
     using unnest($1::text[])
           as old(ws)
     where epoch.ctid = (
            select found.ctid
              from epoch as found
             where found.ws between old.ws and old.ws
             order by found.ws
             limit 1
           )
    returning 1
)
select expect_rows('epoch', count(*), cardinality($1))
  from gone
