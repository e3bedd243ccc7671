-- Gives sessions' documents new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are locked by session_lock.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with changed as (
    update session
       set version = new.version,
           body    = new.body
      from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[])
           as new(ws, app, flow, id, version, body)
     where session.ctid = (
            select found.ctid
              from session as found
             where (found.ws, found.app, found.flow, found.id)
                   between (new.ws, new.app, new.flow, new.id)
                       and (new.ws, new.app, new.flow, new.id)
             order by found.ws, found.app, found.flow, found.id
             limit 1
           )
    returning 1
)
select expect_rows('session', count(*), cardinality($1))
  from changed
