-- Reads the newest posted events of a workspace.
--
-- ?1 ws   ?2 below this event   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: event_newest (ws, seq) where kind = 'event'.
select seq, salt, ws, kind, name, at, ts, data
  from event
 where ws = ?1
   and kind = 'event'
   and seq < ?2
 order by seq desc
 limit ?3
