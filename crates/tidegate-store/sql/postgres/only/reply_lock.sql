-- Locks kept answers by key and reads them as they are once the locks are there.
--
-- $1 ws   $2 id (arrays of one length)
-- Locks in key order, waiting. Returns columns of the locked rows only (R15): what lives in
-- other rows is read by a later statement. An absent row locks nothing (R3).
select reply.ws, reply.id, reply.seq, reply.at, reply.hash, reply.answer, reply.response
  from reply
  join unnest($1::text[], $2::text[])
       as wanted(ws, id)
    on reply.ws = wanted.ws
   and reply.id = wanted.id
 order by reply.ws, reply.id
   for no key update of reply
