-- Reads the runs that have a due time, the earliest first.
--
-- $1 how many
-- Locks nothing: a hint. Index: run_due.
select seq, salt, ws, lane, ready, line, tier, order_at, order_seq, due, owner, fence, body,
       event_seq, past, parked
  from run
 where due is not null
 order by due, seq
 limit $1::bigint
