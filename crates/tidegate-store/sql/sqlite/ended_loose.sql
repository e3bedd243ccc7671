-- Reads the ended runs between two numbers that no run relies on any more.
--
-- ?1 after   ?2 until   ?3 how many
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
