-- Deletes definitions by key.
--
-- $1 lane (arrays of one length)
-- The rows are held still by the latch of the workspace.
-- A row that is missing is an error (R2), raised here because COMMIT is already on its way.
with gone as (
    delete from def
     using unnest($1::bigint[])
           as old(lane)
     where def.lane = old.lane
    returning 1
)
select expect_rows('def', count(*), cardinality($1))
  from gone
