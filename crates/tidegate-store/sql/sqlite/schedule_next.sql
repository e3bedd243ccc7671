-- Reads the schedules that have an occurrence planned, the earliest first.
--
-- ?1 how many
-- Locks nothing: SQLite has one writer.
-- Index: schedule_next.
select ws, app, workflow, id, next, last, outcome, paused_at
  from schedule
 where next is not null
 order by next, ws, app, workflow, id
 limit ?1
