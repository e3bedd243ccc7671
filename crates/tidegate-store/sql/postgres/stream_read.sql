-- Reads stream heads by key.
--
-- $1 ws   $2 name (arrays of one length)
-- Locks nothing. Index: the primary key. Row order is not promised.
select stream.ws, stream.name, stream.id, stream.head, stream.closed
  from stream
  join unnest($1::text[], $2::text[])
       as wanted(ws, name)
    on stream.ws = wanted.ws
   and stream.name = wanted.name
