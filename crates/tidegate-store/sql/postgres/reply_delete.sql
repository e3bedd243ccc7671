-- Deletes kept answers by key.
--
-- $1 ws   $2 id (arrays of one length)
-- The rows are locked by reply_lock.
-- A row that is missing is an error (R2), raised here because COMMIT is already on its way.
with gone as (
    delete from reply
     using unnest($1::text[], $2::text[])
           as old(ws, id)
     where reply.ws = old.ws
       and reply.id = old.id
    returning 1
)
select expect_rows('reply', count(*), cardinality($1))
  from gone
