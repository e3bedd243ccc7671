-- Reads unreferenced ended runs with `after < seq <= until`: no run refers to them any more.
--
-- ?1 after   ?2 until   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Indexes: the primary key; run_past.
select seq, salt, ws, app, workflow, version, state, queued_at, ended_at, event_seq, body,
       lane
  from ended
 where seq > ?1
   and seq <= ?2
   and not exists (select 1 from run where run.past = ended.seq)
   and not exists (select 1 from run where run.seq = ended.seq)
 order by seq
 limit ?3
