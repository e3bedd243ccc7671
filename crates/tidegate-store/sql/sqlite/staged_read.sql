-- Reads an operation that a run has staged by its key.
--
-- ?1 run   ?2 n
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select run, n, app, flow, id, op, version, seen
  from staged
 where run = ?1
   and n = ?2
