-- Reads the schedules that have an occurrence planned, earliest first.
--
-- ?1 limit
-- Locks nothing: SQLite has one writer.
-- Index: schedule_next.
select ws, app, workflow, id, next, last, outcome, paused_at
  from schedule
 where next is not null
 order by next, ws, app, workflow, id
 limit ?1
