-- Locks stream heads by key and reads them as they are once the locks are there.
--
-- $1 ws   $2 name (arrays of one length)
-- Locks in the order of the arrays, which is that of the keys, waiting. Returns columns of the
-- locked rows only (spec R15): what lives in other rows is read by a later statement. An absent row
-- locks nothing (spec R3). Index: the primary key, once for each key (README).
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
           for no key update
       ) as found
