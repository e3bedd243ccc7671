-- Locks places of reactions by key and reads them as they are once the locks are there.
--
-- $1 ws   $2 reaction   $3 stream (arrays of one length)
-- Locks in the order of the arrays, which is that of the keys, waiting. Returns columns of the
-- locked rows only (spec R15): what lives in other rows is read by a later statement. An absent row
-- locks nothing (spec R3). Index: the primary key, once for each key (README).
select found.ws, found.reaction, found.stream, found.work, found.at, found.want, found.owner,
       found.fence, found.until, found.due, found.since, found.failures, found.claims,
       found.blocked, found.log, found.error
  from unnest($1::text[], $2::text[], $3::text[])
       as wanted(ws, reaction, stream)
 cross join lateral (
        select sub.ws, sub.reaction, sub.stream, sub.work, sub.at, sub.want, sub.owner, sub.fence,
               sub.until, sub.due, sub.since, sub.failures, sub.claims, sub.blocked, sub.log,
               sub.error
          from sub
         where (sub.ws, sub.reaction, sub.stream)
               between (wanted.ws, wanted.reaction, wanted.stream)
                   and (wanted.ws, wanted.reaction, wanted.stream)
         order by sub.ws, sub.reaction, sub.stream
         limit 1
           for no key update
       ) as found
