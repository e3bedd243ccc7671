-- Locks sessions' documents by key and reads them as they are once the locks are there.
--
-- $1 ws   $2 app   $3 flow   $4 id (arrays of one length)
-- Locks in the order of the arrays, which is that of the keys, waiting. Returns columns of the
-- locked rows only (spec R15): what lives in other rows is read by a later statement. An absent row
-- locks nothing (spec R3). Index: the primary key, once for each key (README).
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
           for no key update
       ) as found
