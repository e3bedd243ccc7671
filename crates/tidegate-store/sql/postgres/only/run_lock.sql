-- Locks runs by number and the first runs of gates' queues, and reads them.
--
-- $1 numbers   $2 gate keys   $3 limit for each queue ($2 and $3: arrays of one length)
-- Locks in the order of numbers, waiting. Runs after gate_lock, never in it: the numbers are not
-- read again after a wait, so the gates must be locked before it begins (spec R15). The order of
-- each queue is read by run_queue_order, which runs after this.
-- Indexes: the primary key, once for each number (README); run_line.
select found.seq, found.salt, found.ws, found.lane, found.ready, found.line, found.tier,
       found.order_at, found.order_seq, found.due, found.owner, found.fence, found.body,
       found.event_seq, found.past, found.parked
  from (select unnest($1::bigint[])
         union
        select place.seq
          from unnest($2::bytea[], $3::bigint[]) as line(key, most)
         cross join lateral (
                select run.seq
                  from run
                 where run.line = (select gate.id from gate where gate.key = line.key)
                 order by run.line, run.tier, run.order_at, run.order_seq, run.seq
                 limit line.most
               ) as place
         order by 1) as wanted(seq)
 cross join lateral (
        select run.seq, run.salt, run.ws, run.lane, run.ready, run.line, run.tier, run.order_at,
               run.order_seq, run.due, run.owner, run.fence, run.body, run.event_seq, run.past,
               run.parked
          from run
         where run.seq between wanted.seq and wanted.seq
         order by run.seq
         limit 1
           for no key update
       ) as found
