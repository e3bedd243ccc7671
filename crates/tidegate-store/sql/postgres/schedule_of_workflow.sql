-- Reads the schedules of workflows.
--
-- $1 ws   $2 app   $3 workflow   $4 limit (arrays: one element per scan)
-- Locks nothing. Index: the primary key.
-- First column: index of the scan, from 1.
select wanted.n, found.ws, found.app, found.workflow, found.id, found.next, found.last,
       found.outcome, found.paused_at
  from unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
       with ordinality as wanted(ws, app, workflow, most, n)
 cross join lateral (
        select schedule.ws, schedule.app, schedule.workflow, schedule.id, schedule.next,
               schedule.last, schedule.outcome, schedule.paused_at
          from schedule
         where schedule.ws = wanted.ws
           and schedule.app = wanted.app
           and schedule.workflow = wanted.workflow
         order by schedule.id
         limit wanted.most
       ) as found
 order by wanted.n, found.id
