-- Locks kept answers by key and reads them as they are once the locks are there.
--
-- $1 ws   $2 id (arrays of one length)
-- Locks in the order of the arrays, which is that of the keys, waiting. Returns columns of the
-- locked rows only (spec R15): what lives in other rows is read by a later statement. An absent row
-- locks nothing (spec R3). Index: the primary key, once for each key (README).
select found.ws, found.id, found.seq, found.at, found.hash, found.answer, found.response
  from unnest($1::text[], $2::text[])
       as wanted(ws, id)
 cross join lateral (
        select reply.ws, reply.id, reply.seq, reply.at, reply.hash, reply.answer, reply.response
          from reply
         where (reply.ws, reply.id) between (wanted.ws, wanted.id) and (wanted.ws, wanted.id)
         order by reply.ws, reply.id
         limit 1
           for no key update
       ) as found
