-- Locks places of reactions by key and reads them as they are once the locks are there.
--
-- $1 ws   $2 reaction   $3 stream (arrays of one length)
-- Locks in key order, waiting. Returns columns of the locked rows only (R15): what lives in
-- other rows is read by a later statement. An absent row locks nothing (R3).
select sub.ws, sub.reaction, sub.stream, sub.work, sub.at, sub.want, sub.owner, sub.fence,
       sub.until, sub.due, sub.since, sub.failures, sub.claims, sub.blocked,
       sub.log, sub.error
  from sub
  join unnest($1::text[], $2::text[], $3::text[])
       as wanted(ws, reaction, stream)
    on sub.ws = wanted.ws
   and sub.reaction = wanted.reaction
   and sub.stream = wanted.stream
 order by sub.ws, sub.reaction, sub.stream
   for no key update of sub
