-- Reads all places of reactions in workspaces.
--
-- $1 ws   $2 how many (arrays: one place for each scan)
-- Locks nothing. Index: the primary key.
-- Returns the scan's place first, from 1.
select wanted.n, found.ws, found.reaction, found.stream, found.work, found.at,
       found.want, found.owner, found.fence, found.until, found.due,
       found.since, found.failures, found.claims, found.blocked,
       found.log, found.error
  from unnest($1::text[], $2::bigint[])
       with ordinality as wanted(ws, most, n)
 cross join lateral (
        select sub.ws, sub.reaction, sub.stream, sub.work, sub.at, sub.want, sub.owner,
               sub.fence, sub.until, sub.due, sub.since, sub.failures, sub.claims,
               sub.blocked, sub.log, sub.error
          from sub
         where sub.ws = wanted.ws
         order by sub.reaction, sub.stream
         limit wanted.most
       ) as found
 order by wanted.n, found.reaction, found.stream
