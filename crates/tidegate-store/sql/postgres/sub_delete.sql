-- Deletes places of reactions by key.
--
-- $1 ws   $2 reaction   $3 stream (arrays of one length)
-- The rows are locked by sub_lock or sub_work_lock.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with gone as (
    delete from sub
     using unnest($1::text[], $2::text[], $3::text[])
           as old(ws, reaction, stream)
     where sub.ctid = (
            select found.ctid
              from sub as found
             where (found.ws, found.reaction, found.stream)
                   between (old.ws, old.reaction, old.stream)
                       and (old.ws, old.reaction, old.stream)
             order by found.ws, found.reaction, found.stream
             limit 1
           )
    returning 1
)
select expect_rows('sub', count(*), cardinality($1))
  from gone
