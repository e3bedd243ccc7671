-- Deletes sessions' documents by key.
--
-- $1 ws   $2 app   $3 flow   $4 id (arrays of one length)
-- The rows are locked by session_lock.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with gone as (
    delete from session
     using unnest($1::text[], $2::text[], $3::text[], $4::text[])
           as old(ws, app, flow, id)
     where session.ctid = (
            select found.ctid
              from session as found
             where (found.ws, found.app, found.flow, found.id)
                   between (old.ws, old.app, old.flow, old.id)
                       and (old.ws, old.app, old.flow, old.id)
             order by found.ws, found.app, found.flow, found.id
             limit 1
           )
    returning 1
)
select expect_rows('session', count(*), cardinality($1))
  from gone
