-- Reads kept answers by key.
--
-- $1 ws   $2 id (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
select found.ws, found.id, found.seq, found.at, found.hash, found.answer, found.response
  from unnest($1::text[], $2::text[])
       as wanted(ws, id)
 cross join lateral (
        select reply.ws, reply.id, reply.seq, reply.at, reply.hash, reply.answer, reply.response
          from reply
         where (reply.ws, reply.id) between (wanted.ws, wanted.id) and (wanted.ws, wanted.id)
         order by reply.ws, reply.id
         limit 1
       ) as found
