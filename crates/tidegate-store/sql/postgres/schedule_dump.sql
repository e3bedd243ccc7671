-- Reads all schedules, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select ws, app, workflow, id, next, last, outcome, paused_at
  from schedule
 order by ws, app, workflow, id
