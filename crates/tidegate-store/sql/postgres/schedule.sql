-- name: schedule_next
-- Reads the schedules that have a next occurrence, earliest first.
--
-- $1 limit
-- Locks nothing: its rows are hints. Index: schedule_next.
select {columns}
  from schedule
 where next is not null
 order by next, ws, app, workflow, id
 limit $1::bigint

-- name: schedule_of_workflow
-- Reads the schedules of workflows.
--
-- $1 ws   $2 app   $3 workflow   $4 limit (arrays: one element per scan)
-- Locks nothing. Index: the primary key.
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
       with ordinality as wanted(ws, app, workflow, most, n)
 cross join lateral (
        select {schedule.columns}
          from schedule
         where schedule.ws = wanted.ws
           and schedule.app = wanted.app
           and schedule.workflow = wanted.workflow
         order by schedule.id
         limit wanted.most
       ) as found
 order by wanted.n, found.id
