-- Reads the places that events have in batches.
--
-- $1 event   $2 how many (arrays: one place for each scan)
-- Locks nothing. Index: item_event. The `offset 0` keeps the planner from reading the primary key
-- in order instead: an event is in few batches.
-- Returns the scan's place first, from 1.
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
