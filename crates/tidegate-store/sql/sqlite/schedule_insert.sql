-- Inserts a schedule.
--
-- ?1 ws   ?2 app   ?3 workflow   ?4 id   ?5 next   ?6 last   ?7 outcome   ?8 paused_at
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into schedule (ws, app, workflow, id, next, last, outcome, paused_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
