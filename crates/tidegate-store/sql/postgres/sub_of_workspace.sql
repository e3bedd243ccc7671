-- Reads the subscriptions of workspaces, after a given one.
--
-- $1 ws   $2 reaction   $3 stream   $4 limit (arrays: one element per scan)
-- Locks nothing. Index: the primary key.
-- First column: index of the scan, from 1.
select wanted.n, found.ws, found.reaction, found.stream, found.work, found.at,
       found.want, found.owner, found.fence, found.until, found.due,
       found.since, found.failures, found.claims, found.blocked,
       found.log, found.error
  from unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
       with ordinality as wanted(ws, reaction, stream, most, n)
 cross join lateral (
        select sub.ws, sub.reaction, sub.stream, sub.work, sub.at, sub.want, sub.owner,
               sub.fence, sub.until, sub.due, sub.since, sub.failures, sub.claims,
               sub.blocked, sub.log, sub.error
          from sub
         where sub.ws = wanted.ws
           and (sub.reaction, sub.stream) > (wanted.reaction, wanted.stream)
         order by sub.reaction, sub.stream
         limit wanted.most
       ) as found
 order by wanted.n, found.reaction, found.stream
