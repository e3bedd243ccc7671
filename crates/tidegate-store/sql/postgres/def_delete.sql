-- Deletes definitions by key.
--
-- $1 lane (arrays of one length)
-- The rows are held still by the latch of the workspace.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with gone as (
    delete from def
     using unnest($1::bigint[])
           as old(lane)
     where def.ctid = (
            select found.ctid
              from def as found
             where found.lane between old.lane and old.lane
             order by found.lane
             limit 1
           )
    returning 1
)
select expect_rows('def', count(*), cardinality($1))
  from gone
