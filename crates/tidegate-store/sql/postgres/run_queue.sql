-- Reads the first runs in gates' queues, by position.
--
-- $1 the gate's key   $2 limit (arrays: one element per queue)
-- Locks nothing. Index: run_line.
-- First column: index of the queue, from 1.
select wanted.n, found.seq, found.salt, found.ws, found.lane, found.ready,
       found.line, found.tier, found.order_at, found.order_seq, found.due,
       found.owner, found.fence, found.body, found.event_seq, found.past, found.parked
  from unnest($1::bytea[], $2::bigint[])
       with ordinality as wanted(key, most, n)
 cross join lateral (
        select run.seq, run.salt, run.ws, run.lane, run.ready, run.line, run.tier,
               run.order_at, run.order_seq, run.due, run.owner, run.fence,
               run.body, run.event_seq, run.past, run.parked
          from run
         where run.line = (select gate.id from gate where gate.key = wanted.key)
         order by run.line, run.tier, run.order_at, run.order_seq, run.seq
         limit wanted.most
       ) as found
 order by wanted.n, found.tier, found.order_at, found.order_seq, found.seq
