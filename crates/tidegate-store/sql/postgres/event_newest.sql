-- Reads the newest posted events of workspaces.
--
-- $1 ws   $2 below   $3 limit (arrays: one element per scan)
-- Locks nothing. Index: event_newest.
-- First column: index of the scan, from 1.
select wanted.n, found.seq, found.salt, found.ws, found.kind, found.name, found.at, found.ts,
       found.data
  from unnest($1::text[], $2::bigint[], $3::bigint[])
       with ordinality as wanted(ws, below, most, n)
 cross join lateral (
        select event.seq, event.salt, event.ws, event.kind, event.name, event.at, event.ts,
               event.data
          from event
         where (event.ws, event.seq) < (wanted.ws, wanted.below)
           and event.ws >= wanted.ws
           and event.kind = 'event'
         order by event.ws desc, event.seq desc
         limit wanted.most
       ) as found
 order by wanted.n, found.seq desc
