-- Reads ready runs in the order of their turns.
--
-- $1 workspace   $2, $3 from these turns and lanes   $4, $5 up to these   $6 limit
-- Locks nothing. The first turns in these ranges are found by as many index steps, the lanes of
-- each turn by one more.
-- Indexes: run_ready, a step for each turn and lane; the primary key, once for each run (README).
select found.seq, found.salt, found.ws, found.lane, found.ready, found.line, found.tier,
       found.order_at, found.order_seq, found.due, found.owner, found.fence, found.body,
       found.event_seq, found.past, found.parked
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
        select run.seq, run.salt, run.ws, run.lane, run.ready, run.line, run.tier, run.order_at,
               run.order_seq, run.due, run.owner, run.fence, run.body, run.event_seq, run.past,
               run.parked
          from run
         where run.seq between candidate.seq and candidate.seq
         order by run.seq
         limit 1
       ) as found
 limit $6::bigint
