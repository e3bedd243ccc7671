-- Reads stream heads by key.
--
-- $1 ws   $2 name (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
select found.ws, found.name, found.id, found.head, found.closed
  from unnest($1::text[], $2::text[])
       as wanted(ws, name)
 cross join lateral (
        select stream.ws, stream.name, stream.id, stream.head, stream.closed
          from stream
         where (stream.ws, stream.name)
               between (wanted.ws, wanted.name)
                   and (wanted.ws, wanted.name)
         order by stream.ws, stream.name
         limit 1
       ) as found
