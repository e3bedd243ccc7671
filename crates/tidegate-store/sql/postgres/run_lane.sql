-- Reads the runs of definitions that have not ended, after a number.
--
-- $1 lane   $2 after   $3 limit (arrays: one element per scan)
-- Locks nothing. Index: run_lane.
-- First column: index of the scan, from 1.
select wanted.n, found.seq, found.salt, found.ws, found.lane, found.ready,
       found.line, found.tier, found.order_at, found.order_seq, found.due,
       found.owner, found.fence, found.body, found.event_seq, found.past, found.parked
  from unnest($1::bigint[], $2::bigint[], $3::bigint[])
       with ordinality as wanted(lane, after, most, n)
 cross join lateral (
        select run.seq, run.salt, run.ws, run.lane, run.ready, run.line, run.tier,
               run.order_at, run.order_seq, run.due, run.owner, run.fence,
               run.body, run.event_seq, run.past, run.parked
          from run
         where (run.lane, run.seq) > (wanted.lane, wanted.after)
           and run.lane <= wanted.lane
         order by run.lane, run.seq
         limit wanted.most
       ) as found
 order by wanted.n, found.seq
