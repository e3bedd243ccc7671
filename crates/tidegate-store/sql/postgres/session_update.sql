-- Gives sessions' documents new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are locked by session_lock.
-- A row that is missing is an error (R2), raised here because COMMIT is already on its way.
with changed as (
    update session
       set version = new.version,
           body    = new.body
      from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[])
           as new(ws, app, flow, id, version, body)
     where session.ws = new.ws
       and session.app = new.app
       and session.flow = new.flow
       and session.id = new.id
    returning 1
)
select expect_rows('session', count(*), cardinality($1))
  from changed
