-- Reads kept answers by key.
--
-- $1 ws   $2 id (arrays of one length)
-- Locks nothing. Index: the primary key. Row order is not promised.
select reply.ws, reply.id, reply.seq, reply.at, reply.hash, reply.answer, reply.response
  from reply
  join unnest($1::text[], $2::text[])
       as wanted(ws, id)
    on reply.ws = wanted.ws
   and reply.id = wanted.id
