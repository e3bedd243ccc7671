-- Reads the window or buffer that gathers for a run.
--
-- ?1 run   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: gate_window (id) where event is not null.
select key, id, at, due, state, event
  from gate
 where id = ?1
   and event is not null
 order by key
 limit ?2
