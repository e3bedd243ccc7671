-- Reads a workspace's stream events after a global position.
--
-- ?1 ws   ?2 after this position   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: unique (ws, pos).
select stream, version, ws, pos, seq, salt, name, at, data, meta
  from log
 where ws = ?1
   and pos > ?2
 order by pos
 limit ?3
