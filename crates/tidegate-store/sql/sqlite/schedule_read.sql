-- Reads a schedule by its key.
--
-- ?1 ws   ?2 app   ?3 workflow   ?4 id
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select ws, app, workflow, id, next, last, outcome, paused_at
  from schedule
 where ws = ?1
   and app = ?2
   and workflow = ?3
   and id = ?4
