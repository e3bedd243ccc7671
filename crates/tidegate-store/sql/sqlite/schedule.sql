-- name: schedule_next
-- Reads the schedules that have a next occurrence, earliest first.
--
-- ?1 limit
-- Locks nothing: SQLite has one writer.
-- Index: schedule_next.
select {columns}
  from schedule
 where next is not null
 order by next, ws, app, workflow, id
 limit ?1

-- name: schedule_of_workflow
-- Reads the schedules of a workflow.
--
-- ?1 ws   ?2 app   ?3 workflow   ?4 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select {columns}
  from schedule
 where ws = ?1
   and app = ?2
   and workflow = ?3
 order by id
 limit ?4
