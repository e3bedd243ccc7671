-- Deletes places of reactions by key.
--
-- $1 ws   $2 reaction   $3 stream (arrays of one length)
-- The rows are locked by sub_lock or sub_work_lock.
-- A row that is missing is an error (R2), raised here because COMMIT is already on its way.
with gone as (
    delete from sub
     using unnest($1::text[], $2::text[], $3::text[])
           as old(ws, reaction, stream)
     where sub.ws = old.ws
       and sub.reaction = old.reaction
       and sub.stream = old.stream
    returning 1
)
select expect_rows('sub', count(*), cardinality($1))
  from gone
