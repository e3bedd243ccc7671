-- Reads the schedules of a workflow.
--
-- ?1 ws   ?2 app   ?3 workflow   ?4 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select ws, app, workflow, id, next, last, outcome, paused_at
  from schedule
 where ws = ?1
   and app = ?2
   and workflow = ?3
 order by id
 limit ?4
