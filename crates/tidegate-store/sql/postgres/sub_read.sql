-- Reads places of reactions by key.
--
-- $1 ws   $2 reaction   $3 stream (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
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
       ) as found
