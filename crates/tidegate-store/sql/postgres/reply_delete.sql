-- Deletes kept answers by key.
--
-- $1 ws   $2 id (arrays of one length)
-- The rows are locked by reply_lock.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with gone as (
    delete from reply
     using unnest($1::text[], $2::text[])
           as old(ws, id)
     where reply.ctid = (
            select found.ctid
              from reply as found
             where (found.ws, found.id) between (old.ws, old.id) and (old.ws, old.id)
             order by found.ws, found.id
             limit 1
           )
    returning 1
)
select expect_rows('reply', count(*), cardinality($1))
  from gone
