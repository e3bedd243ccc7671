-- Reads sessions' documents by key.
--
-- $1 ws   $2 app   $3 flow   $4 id (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
select found.ws, found.app, found.flow, found.id, found.version, found.body
  from unnest($1::text[], $2::text[], $3::text[], $4::text[])
       as wanted(ws, app, flow, id)
 cross join lateral (
        select session.ws, session.app, session.flow, session.id, session.version, session.body
          from session
         where (session.ws, session.app, session.flow, session.id)
               between (wanted.ws, wanted.app, wanted.flow, wanted.id)
                   and (wanted.ws, wanted.app, wanted.flow, wanted.id)
         order by session.ws, session.app, session.flow, session.id
         limit 1
       ) as found
