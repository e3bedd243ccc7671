-- Locks runs by number and the first runs of gates' lines, and reads them.
--
-- $1 numbers   $2 gate keys   $3 how many of each line ($2 and $3: arrays of one length)
-- Locks in the order of numbers, waiting. Runs after gate_lock, never in it: its subquery is not
-- read again after a wait, so the gates must be held still before it begins (R15).
-- Who stands where is said by run_line_order, which runs after this.
-- Indexes: the primary key; run_line.
select run.seq, run.salt, run.ws, run.lane, run.ready, run.line, run.tier, run.order_at,
       run.order_seq, run.due, run.owner, run.fence, run.body, run.event_seq, run.past, run.parked
  from run
 where run.seq = any(array(
            select unnest($1::bigint[])
             union
            select found.seq
              from unnest($2::bytea[], $3::bigint[]) as wanted(key, most)
              join gate
                on gate.key = wanted.key
             cross join lateral (
                    select run.seq
                      from run
                     where run.line = gate.id
                     order by run.line, run.tier, run.order_at, run.order_seq, run.seq
                     limit wanted.most
                   ) as found
       ))
 order by run.seq
   for no key update
