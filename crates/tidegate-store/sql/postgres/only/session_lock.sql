-- Locks sessions' documents by key and reads them as they are once the locks are there.
--
-- $1 ws   $2 app   $3 flow   $4 id (arrays of one length)
-- Locks in key order, waiting. Returns columns of the locked rows only (R15): what lives in
-- other rows is read by a later statement. An absent row locks nothing (R3).
select session.ws, session.app, session.flow, session.id, session.version, session.body
  from session
  join unnest($1::text[], $2::text[], $3::text[], $4::text[])
       as wanted(ws, app, flow, id)
    on session.ws = wanted.ws
   and session.app = wanted.app
   and session.flow = wanted.flow
   and session.id = wanted.id
 order by session.ws, session.app, session.flow, session.id
   for no key update of session
