-- Reads all schedules, in order of their keys.
--
-- Locks nothing. Index: the primary key.
select ws, app, workflow, id, next, last, outcome, paused_at
  from schedule
 order by ws, app, workflow, id
