-- Reads the order of the runs in gates' queues, once run_lock has locked them.
--
-- $1 the gate's key   $2 limit (arrays: one element per queue)
-- Locks nothing. A number that run_lock did not lock means that the queue has changed: try again.
-- Index: run_line.
select wanted.n, found.seq
  from unnest($1::bytea[], $2::bigint[])
       with ordinality as wanted(key, most, n)
 cross join lateral (
        select run.seq, run.tier, run.order_at, run.order_seq
          from run
         where run.line = (select gate.id from gate where gate.key = wanted.key)
         order by run.line, run.tier, run.order_at, run.order_seq, run.seq
         limit wanted.most
       ) as found
 order by wanted.n, found.tier, found.order_at, found.order_seq, found.seq
