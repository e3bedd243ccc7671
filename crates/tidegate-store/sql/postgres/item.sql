-- name: item_of_event
-- Reads the positions of events in batches.
--
-- $1 event   $2 limit (arrays: one element per scan)
-- Locks nothing. Index: item_event, because an event is in few batches. The `offset 0` keeps the
-- planner from using the primary key instead.
-- First column: position of the scan in the arrays, from 1.
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
-- Reads the events of batches. A batch is named by its run.
--
-- $1 run   $2 limit (arrays: one element per scan)
-- Locks nothing. Index: the primary key.
-- First column: position of the scan in the arrays, from 1.
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
