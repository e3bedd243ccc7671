-- name: item_of_event
-- Reads events' positions in batches.
--
-- $1 event   $2 limit (arrays: one element per scan)
-- Locks nothing. Index: item_event. The `offset 0` keeps the planner from reading the primary key
-- in order instead: an event is in few batches.
-- First column: index of the scan, from 1.
select wanted.n, {found.columns}
  from unnest($1::bigint[], $2::bigint[])
       with ordinality as wanted(event, most, n)
 cross join lateral (
        select {places.columns}
          from (select {item.columns}
                  from item
                 where item.event_seq = wanted.event
                offset 0) as places
         order by places.run, places.n
         limit wanted.most
       ) as found
 order by wanted.n, found.run, found.n

-- name: item_of_run
-- Reads all items of batches.
--
-- $1 run   $2 limit (arrays: one element per scan)
-- Locks nothing. Index: the primary key.
-- First column: index of the scan, from 1.
select wanted.n, {found.columns}
  from unnest($1::bigint[], $2::bigint[])
       with ordinality as wanted(run, most, n)
 cross join lateral (
        select {item.columns}
          from item
         where item.run = wanted.run
         order by item.n
         limit wanted.most
       ) as found
 order by wanted.n, found.n
