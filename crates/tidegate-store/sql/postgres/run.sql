-- name: run_queue
-- Reads the first runs in the queues of gates, in queue order.
--
-- $1 the gate's key   $2 limit (arrays: one element per queue)
-- Locks nothing. Index: run_line.
-- First column: position of the queue in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::bytea[], $2::bigint[])
       with ordinality as wanted(key, most, n)
 cross join lateral (
        select {run.columns}
          from run
         where run.line = (select gate.id from gate where gate.key = wanted.key)
         order by run.line, run.tier, run.order_at, run.order_seq, run.seq
         limit wanted.most
       ) as found
 order by wanted.n, found.tier, found.order_at, found.order_seq, found.seq

-- name: run_queue_tier
-- Reads the first runs of one tier in the queues of gates.
--
-- $1 the gate's key   $2 tier   $3 limit (arrays: one element per queue)
-- Locks nothing. Index: run_line.
-- First column: position of the queue in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::bytea[], $2::bigint[], $3::bigint[])
       with ordinality as wanted(key, tier, most, n)
 cross join lateral (
        select {run.columns}
          from run
         where run.line = (select gate.id from gate where gate.key = wanted.key)
           and run.tier = wanted.tier
         order by run.line, run.tier, run.order_at, run.order_seq, run.seq
         limit wanted.most
       ) as found
 order by wanted.n, found.order_at, found.order_seq, found.seq

-- name: run_queue_end
-- Reads the last runs in the queues of gates, the last one first.
--
-- $1 the gate's key   $2 limit (arrays: one element per queue)
-- Locks nothing. Index: run_line, backwards.
-- First column: position of the queue in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::bytea[], $2::bigint[])
       with ordinality as wanted(key, most, n)
 cross join lateral (
        select {run.columns}
          from run
         where run.line = (select gate.id from gate where gate.key = wanted.key)
         order by run.line desc, run.tier desc, run.order_at desc, run.order_seq desc, run.seq desc
         limit wanted.most
       ) as found
 order by wanted.n, found.tier desc, found.order_at desc, found.order_seq desc, found.seq desc

-- name: run_queue_order
-- Reads the numbers of the first runs in the queues of gates, in queue order, after run_lock has
-- locked these runs.
--
-- $1 the gate's key   $2 first tier   $3 last tier   $4 limit (arrays: one element per queue)
-- Locks nothing. If run_lock has not locked one of these runs, the queue has changed: the caller
-- tries again.
-- Index: run_line.
select wanted.n, found.seq
  from unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[])
       with ordinality as wanted(key, low, high, most, n)
 cross join lateral (
        select run.seq, run.tier, run.order_at, run.order_seq
          from run
         where run.line = (select gate.id from gate where gate.key = wanted.key)
           and run.tier between wanted.low and wanted.high
         order by run.line, run.tier, run.order_at, run.order_seq, run.seq
         limit wanted.most
       ) as found
 order by wanted.n, found.tier, found.order_at, found.order_seq, found.seq

-- name: run_queue_count
-- Counts the runs in the queues of gates, each up to a limit.
--
-- $1 the gate's key   $2 limit (arrays: one element per count)
-- Locks nothing. Index: run_line, index-only where the table was vacuumed.
-- First column: position of the count in the arrays, from 1.
select wanted.n, found.count
  from unnest($1::bytea[], $2::bigint[])
       with ordinality as wanted(key, most, n)
 cross join lateral (
        select count(*) as count
          from (select 1
                  from run
                 where run.line = (select gate.id from gate where gate.key = wanted.key)
                 limit wanted.most) as first
       ) as found
 order by wanted.n

-- name: run_lock
-- Locks and reads runs by number, and the first runs in the queues of gates.
--
-- $1 numbers   $2 gate keys   $3 first tier   $4 last tier   $5 limit for each queue ($2 to $5:
-- arrays of one length)
-- Locks in the order of the run numbers, and waits. After a wait PostgreSQL does not search the
-- queues again, so gate_lock must have locked the gates before this statement begins (spec R15).
-- The order within each queue is read afterwards, by run_queue_order.
-- Indexes: the primary key, once for each number (README); run_line.
select {found.columns}
  from (select unnest($1::bigint[])
         union
        select place.seq
          from unnest($2::bytea[], $3::bigint[], $4::bigint[], $5::bigint[])
                 as line(key, low, high, most)
         cross join lateral (
                select run.seq
                  from run
                 where run.line = (select gate.id from gate where gate.key = line.key)
                   and run.tier between line.low and line.high
                 order by run.line, run.tier, run.order_at, run.order_seq, run.seq
                 limit line.most
               ) as place
         order by 1) as wanted(seq)
 cross join lateral (
        select {run.columns}
          from run
         where run.seq between wanted.seq and wanted.seq
         order by run.seq
         limit 1
           for no key update
       ) as found

-- name: run_ready
-- Reads ready runs by turns: the first run of each workflow, then the second of each, and so on.
--
-- $1 workspace   $2, $3 first workflow and lane   $4, $5 last workflow and lane
-- $6 limit ($2 to $5: arrays, one element per range)
-- Locks nothing. Finds each workflow in the ranges by one index step, and each of its lanes by
-- another one.
-- Indexes: run_ready, a step per workflow and lane; the primary key, once for each run (README).
select {found.columns}
  from (with recursive turn(nth, ready, lane, to_ready, to_lane) as materialized (
          select range.nth, place.ready, place.lane, range.to_ready, range.to_lane
            from unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
                   with ordinality as range(from_ready, from_lane, to_ready, to_lane, nth)
           cross join lateral (
                  with recursive place(ready, lane) as (
                    (select run.ready, run.lane
                       from run
                      where run.ws = $1 and run.ready is not null
                        and (run.ready, run.lane) >= (range.from_ready, range.from_lane)
                        and (run.ready, run.lane) <= (range.to_ready, range.to_lane)
                      order by run.ws, run.ready, run.lane
                      limit 1)
                    union all
                    select next.ready, next.lane
                      from place
                     cross join lateral (
                            select run.ready, run.lane
                              from run
                             where run.ws = $1 and run.ready is not null
                               and (run.ready, run.lane) > (place.ready, 9223372036854775807)
                               and (run.ready, run.lane) <= (range.to_ready, range.to_lane)
                             order by run.ws, run.ready, run.lane
                             limit 1
                           ) as next
                  )
                  select place.ready, place.lane from place
                 ) as place
           limit $6::bigint + cardinality($2::bigint[])
        ), lane(nth, ready, lane, to_ready, to_lane) as (
          select turn.nth, turn.ready, turn.lane, turn.to_ready, turn.to_lane from turn
          union all
          select lane.nth, lane.ready, next.lane, lane.to_ready, lane.to_lane
            from lane
           cross join lateral (
                  select run.lane
                    from run
                   where run.ws = $1 and run.ready is not null
                     and (run.ready, run.lane) > (lane.ready, lane.lane)
                     and (run.ready, run.lane) <= (lane.ready, 9223372036854775807)
                     and (run.ready, run.lane) <= (lane.to_ready, lane.to_lane)
                   order by run.ws, run.ready, run.lane
                   limit 1
                 ) as next
        )
        select place.seq, place.ready, place.lane
          from (select run.seq, lane.ready, lane.lane, min(lane.nth) over of_turn as nth,
                       row_number() over (of_turn order by run.order_at, run.order_seq, run.seq)
                  from lane
                 cross join lateral (
                        select run.seq, run.order_at, run.order_seq
                          from run
                         where run.ws = $1 and run.ready = lane.ready and run.lane = lane.lane
                         order by run.ws, run.ready, run.lane, run.order_at, run.order_seq, run.seq
                         limit ($6::bigint - 1) / (select count(distinct ready) from turn) + 1
                       ) as run
                window of_turn as (partition by lane.ready)) as place
         where place.row_number <= ($6::bigint - 1) / (select count(distinct ready) from turn) + 1
         order by place.row_number, place.nth, place.ready) as candidate
 cross join lateral (
        select {run.columns}
          from run
         where run.seq between candidate.seq and candidate.seq
         order by run.seq
         limit 1
       ) as found
 limit $6::bigint

-- name: run_ready_lock
-- Locks ready runs in the same order as run_ready, and skips runs locked by other transactions.
--
-- $1 workspace   $2, $3 first workflow and lane   $4, $5 last workflow and lane
-- $6 limit ($2 to $5: arrays, one element per range)
-- Never waits. Reads up to four times its share of the limit from each lane, because other
-- transactions may have locked its first runs; the caller drops the surplus. Each run is checked
-- again to be ready when it is locked, by a condition that fits no index.
-- Indexes: run_ready, a step per workflow and lane; the primary key, once for each run (README).
select {found.columns}
  from (with recursive turn(nth, ready, lane, to_ready, to_lane) as materialized (
          select range.nth, place.ready, place.lane, range.to_ready, range.to_lane
            from unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
                   with ordinality as range(from_ready, from_lane, to_ready, to_lane, nth)
           cross join lateral (
                  with recursive place(ready, lane) as (
                    (select run.ready, run.lane
                       from run
                      where run.ws = $1 and run.ready is not null
                        and (run.ready, run.lane) >= (range.from_ready, range.from_lane)
                        and (run.ready, run.lane) <= (range.to_ready, range.to_lane)
                      order by run.ws, run.ready, run.lane
                      limit 1)
                    union all
                    select next.ready, next.lane
                      from place
                     cross join lateral (
                            select run.ready, run.lane
                              from run
                             where run.ws = $1 and run.ready is not null
                               and (run.ready, run.lane) > (place.ready, 9223372036854775807)
                               and (run.ready, run.lane) <= (range.to_ready, range.to_lane)
                             order by run.ws, run.ready, run.lane
                             limit 1
                           ) as next
                  )
                  select place.ready, place.lane from place
                 ) as place
           limit $6::bigint + cardinality($2::bigint[])
        ), lane(nth, ready, lane, to_ready, to_lane) as (
          select turn.nth, turn.ready, turn.lane, turn.to_ready, turn.to_lane from turn
          union all
          select lane.nth, lane.ready, next.lane, lane.to_ready, lane.to_lane
            from lane
           cross join lateral (
                  select run.lane
                    from run
                   where run.ws = $1 and run.ready is not null
                     and (run.ready, run.lane) > (lane.ready, lane.lane)
                     and (run.ready, run.lane) <= (lane.ready, 9223372036854775807)
                     and (run.ready, run.lane) <= (lane.to_ready, lane.to_lane)
                   order by run.ws, run.ready, run.lane
                   limit 1
                 ) as next
        )
        select place.seq, place.ready, place.lane
          from (select run.seq, lane.ready, lane.lane, min(lane.nth) over of_turn as nth,
                       row_number() over (of_turn order by run.order_at, run.order_seq, run.seq)
                  from lane
                 cross join lateral (
                        select run.seq, run.order_at, run.order_seq
                          from run
                         where run.ws = $1 and run.ready = lane.ready and run.lane = lane.lane
                         order by run.ws, run.ready, run.lane, run.order_at, run.order_seq, run.seq
                         limit 4 * (($6::bigint - 1) / (select count(distinct ready) from turn) + 1)
                       ) as run
                window of_turn as (partition by lane.ready)) as place
         order by place.row_number, place.nth, place.ready) as candidate
 cross join lateral (
        select {run.columns}
          from run
         where run.seq between candidate.seq and candidate.seq
           and (coalesce(run.ready, -1), coalesce(run.lane, -1)) = (candidate.ready, candidate.lane)
         order by run.seq
         limit 1
           for no key update skip locked
       ) as found
 limit $6::bigint

-- name: run_ready_count
-- Counts the ready runs of each definition, up to a limit.
--
-- $1 workspace   $2 workflow   $3 lane   $4 limit (arrays: one element per count)
-- Locks nothing. Index: run_ready, index-only where the table was vacuumed.
-- First column: position of the count in the arrays, from 1.
select wanted.n, found.count
  from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[])
       with ordinality as wanted(ws, ready, lane, most, n)
 cross join lateral (
        select count(*) as count
          from (select 1
                  from run
                 where (run.ws, run.ready, run.lane)
                       between (wanted.ws, wanted.ready, wanted.lane)
                           and (wanted.ws, wanted.ready, wanted.lane)
                   and run.ready is not null
                 order by run.ws, run.ready, run.lane
                 limit wanted.most) as first
       ) as found
 order by wanted.n

-- name: run_due
-- Reads runs that are due at or after a time, earliest first.
--
-- $1 earliest due time (µs)   $2 limit
-- Locks nothing: its rows are hints. Index: run_due.
select {columns}
  from run
 where due is not null and due >= $1::bigint
 order by due, seq
 limit $2::bigint

-- name: run_owned
-- Reads the runs that engines own.
--
-- $1 owner   $2 limit (arrays: one element per scan)
-- Locks nothing. Index: run_owner.
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::text[], $2::bigint[])
       with ordinality as wanted(owner, most, n)
 cross join lateral (
        select {run.columns}
          from run
         where run.owner between wanted.owner and wanted.owner
         order by run.owner, run.seq
         limit wanted.most
       ) as found
 order by wanted.n, found.seq

-- name: run_lane
-- Reads the runs of definitions that have not ended, after a sequence number.
--
-- $1 lane   $2 after   $3 limit (arrays: one element per scan)
-- Locks nothing. Index: run_lane.
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::bigint[], $2::bigint[], $3::bigint[])
       with ordinality as wanted(lane, after, most, n)
 cross join lateral (
        select {run.columns}
          from run
         where (run.lane, run.seq) > (wanted.lane, wanted.after)
           and run.lane <= wanted.lane
         order by run.lane, run.seq
         limit wanted.most
       ) as found
 order by wanted.n, found.seq

-- name: run_listening
-- Reads the runs whose first listener has a number, from a given run on.
--
-- $1 number   $2 from this run on   $3 limit (arrays: one element per scan)
-- Locks nothing. Index: run_listens.
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::bigint[], $2::bigint[], $3::bigint[])
       with ordinality as wanted(listens, first, most, n)
 cross join lateral (
        select {run.columns}
          from run
         where (run.listens, run.seq) >= (wanted.listens, wanted.first)
           and run.listens <= wanted.listens
         order by run.listens, run.seq
         limit wanted.most
       ) as found
 order by wanted.n, found.seq

-- name: run_newest
-- Reads the newest runs of lanes that have not ended.
--
-- $1 lanes   $2 below this number   $3 limit
-- Locks nothing: its rows are hints. Indexes: run_lane, once for each lane, so that the runs of a
-- lane are not sorted; the primary key, once for each run (README).
select {found.columns}
  from (select place.seq
          from (select distinct unnest($1::bigint[])) as lanes(lane)
         cross join lateral (
                select run.seq
                  from run
                 where (run.lane, run.seq) < (lanes.lane, $2::bigint)
                   and run.lane >= lanes.lane
                 order by run.lane desc, run.seq desc
                 limit $3::bigint
               ) as place
         order by place.seq desc
         limit $3::bigint) as candidate
 cross join lateral (
        select {run.columns}
          from run
         where run.seq between candidate.seq and candidate.seq
         order by run.seq
         limit 1
       ) as found
 order by found.seq desc

-- name: run_of_event
-- Reads the runs that events started.
--
-- $1 event   $2 limit (arrays: one element per scan)
-- Locks nothing. Indexes: the primary key, in the blocks of numbers around the event, where nearly
-- all of its runs are; run_far for the others; the primary key again, once for each run (README).
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::bigint[], $2::bigint[])
       with ordinality as wanted(event, most, n)
 cross join lateral (
        select place.seq
          from (select near.seq
                  from run as near
                 where near.seq >= ((wanted.event >> 12) - 1) << 12
                   and near.seq < ((wanted.event >> 12) + 2) << 12
                   and near.event_seq = wanted.event
                 order by near.seq) as place
         union
        select far.seq
          from run as far
         where far.event_seq = wanted.event
           and abs((far.event_seq >> 12) - (far.seq >> 12)) > 1
         order by seq
         limit wanted.most
       ) as candidate
 cross join lateral (
        select {run.columns}
          from run
         where run.seq between candidate.seq and candidate.seq
         order by run.seq
         limit 1
       ) as found
 order by wanted.n, found.seq

-- name: run_count
-- Counts the runs of each definition that have not ended, up to a limit.
--
-- $1 lane   $2 limit (arrays: one element per count)
-- Locks nothing. Index: run_lane, index-only where the table was vacuumed.
-- First column: position of the count in the arrays, from 1.
select wanted.n, found.count
  from unnest($1::bigint[], $2::bigint[])
       with ordinality as wanted(lane, most, n)
 cross join lateral (
        select count(*) as count
          from (select 1
                  from run
                 where run.lane between wanted.lane and wanted.lane
                 order by run.lane, run.seq
                 limit wanted.most) as first
       ) as found
 order by wanted.n

-- name: run_driven_count
-- Counts the runs of each definition that are owned by engines, up to a limit.
--
-- $1 lane   $2 limit (arrays: one element per count)
-- Locks nothing. Index: run_owner, all of it once: it has as many entries as runs that engines
-- drive. With an index by lane, the waiting runs would be read, too.
-- First column: position of the count in the arrays, from 1.
with driven as materialized (
    select owned.lane, count(*) as count
      from (select run.lane
              from run
             where run.owner is not null
             order by run.owner, run.seq) as owned
     group by owned.lane
)
select wanted.n, least(coalesce(driven.count, 0), wanted.most)
  from unnest($1::bigint[], $2::bigint[])
       with ordinality as wanted(lane, most, n)
  left join driven
    on driven.lane = wanted.lane
 order by wanted.n

-- name: run_parked_count
-- Counts the runs of each definition that wait or are paused, up to a limit.
--
-- $1 lane   $2 `waiting` or `paused`   $3 limit (arrays: one element per count)
-- Locks nothing. Index: run_parked, index-only where the table was vacuumed.
-- First column: position of the count in the arrays, from 1.
select wanted.n, found.count
  from unnest($1::bigint[], $2::text[], $3::bigint[])
       with ordinality as wanted(lane, parked, most, n)
 cross join lateral (
        select count(*) as count
          from (select 1
                  from run
                 where (run.lane, run.parked) between (wanted.lane, wanted.parked)
                                                  and (wanted.lane, wanted.parked)
                   and run.parked is not null
                 order by run.lane, run.parked
                 limit wanted.most) as first
       ) as found
 order by wanted.n
