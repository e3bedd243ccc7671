-- Locks schedules by key and reads them as they are once the locks are there.
--
-- $1 ws   $2 app   $3 workflow   $4 id (arrays of one length)
-- Locks in key order, waiting. Returns columns of the locked rows only (R15): what lives in
-- other rows is read by a later statement. An absent row locks nothing (R3).
select schedule.ws, schedule.app, schedule.workflow, schedule.id, schedule.next, schedule.last,
       schedule.outcome, schedule.paused_at
  from schedule
  join unnest($1::text[], $2::text[], $3::text[], $4::text[])
       as wanted(ws, app, workflow, id)
    on schedule.ws = wanted.ws
   and schedule.app = wanted.app
   and schedule.workflow = wanted.workflow
   and schedule.id = wanted.id
 order by schedule.ws, schedule.app, schedule.workflow, schedule.id
   for no key update of schedule
