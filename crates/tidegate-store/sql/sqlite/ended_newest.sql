-- Reads the newest runs of one lane that have ended in one state. The caller merges them.
--
-- ?1 lane   ?2 below this run   ?3 limit   ?4 state
-- Locks nothing: SQLite has one writer.
-- Index: ended_lane (lane, state, seq).
select seq, salt, ws, app, workflow, version, state, queued_at, ended_at, event_seq, body,
       lane
  from ended
 where lane = ?1
   and state = ?4
   and seq < ?2
 order by seq desc
 limit ?3
