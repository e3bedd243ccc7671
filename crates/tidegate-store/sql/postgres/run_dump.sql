-- Reads all runs, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select seq, salt, ws, lane, ready, line, tier, order_at, order_seq, due, owner, fence, body,
       event_seq, past, parked
  from run
 order by seq
