-- Reads places of reactions by key.
--
-- $1 ws   $2 reaction   $3 stream (arrays of one length)
-- Locks nothing. Index: the primary key. Row order is not promised.
select sub.ws, sub.reaction, sub.stream, sub.work, sub.at, sub.want, sub.owner, sub.fence,
       sub.until, sub.due, sub.since, sub.failures, sub.claims, sub.blocked,
       sub.log, sub.error
  from sub
  join unnest($1::text[], $2::text[], $3::text[])
       as wanted(ws, reaction, stream)
    on sub.ws = wanted.ws
   and sub.reaction = wanted.reaction
   and sub.stream = wanted.stream
