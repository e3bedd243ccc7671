-- Reads schedules by key.
--
-- $1 ws   $2 app   $3 workflow   $4 id (arrays of one length)
-- Locks nothing. Index: the primary key. Row order is not promised.
select schedule.ws, schedule.app, schedule.workflow, schedule.id, schedule.next, schedule.last,
       schedule.outcome, schedule.paused_at
  from schedule
  join unnest($1::text[], $2::text[], $3::text[], $4::text[])
       as wanted(ws, app, workflow, id)
    on schedule.ws = wanted.ws
   and schedule.app = wanted.app
   and schedule.workflow = wanted.workflow
   and schedule.id = wanted.id
