-- Reads sessions' documents by key.
--
-- $1 ws   $2 app   $3 flow   $4 id (arrays of one length)
-- Locks nothing. Index: the primary key. Row order is not promised.
select session.ws, session.app, session.flow, session.id, session.version, session.body
  from session
  join unnest($1::text[], $2::text[], $3::text[], $4::text[])
       as wanted(ws, app, flow, id)
    on session.ws = wanted.ws
   and session.app = wanted.app
   and session.flow = wanted.flow
   and session.id = wanted.id
