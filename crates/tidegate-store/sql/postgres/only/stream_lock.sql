-- Locks stream heads by key and reads them as they are once the locks are there.
--
-- $1 ws   $2 name (arrays of one length)
-- Locks in key order, waiting. Returns columns of the locked rows only (R15): what lives in
-- other rows is read by a later statement. An absent row locks nothing (R3).
select stream.ws, stream.name, stream.id, stream.head, stream.closed
  from stream
  join unnest($1::text[], $2::text[])
       as wanted(ws, name)
    on stream.ws = wanted.ws
   and stream.name = wanted.name
 order by stream.ws, stream.name
   for no key update of stream
