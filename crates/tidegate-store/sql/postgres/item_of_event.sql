-- Reads events' positions in batches.
--
-- $1 event   $2 limit (arrays: one element per scan)
-- Locks nothing. Index: item_event. The `offset 0` keeps the planner from reading the primary key
-- in order instead: an event is in few batches.
-- First column: index of the scan, from 1.
select wanted.n, found.run, found.n, found.event_seq, found.event_salt
  from unnest($1::bigint[], $2::bigint[])
       with ordinality as wanted(event, most, n)
 cross join lateral (
        select places.run, places.n, places.event_seq, places.event_salt
          from (select item.run, item.n, item.event_seq, item.event_salt
                  from item
                 where item.event_seq = wanted.event
                offset 0) as places
         order by places.run, places.n
         limit wanted.most
       ) as found
 order by wanted.n, found.run, found.n
