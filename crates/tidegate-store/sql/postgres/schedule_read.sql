-- Reads schedules by key.
--
-- $1 ws   $2 app   $3 workflow   $4 id (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
select found.ws, found.app, found.workflow, found.id, found.next, found.last, found.outcome,
       found.paused_at
  from unnest($1::text[], $2::text[], $3::text[], $4::text[])
       as wanted(ws, app, workflow, id)
 cross join lateral (
        select schedule.ws, schedule.app, schedule.workflow, schedule.id, schedule.next,
               schedule.last, schedule.outcome, schedule.paused_at
          from schedule
         where (schedule.ws, schedule.app, schedule.workflow, schedule.id)
               between (wanted.ws, wanted.app, wanted.workflow, wanted.id)
                   and (wanted.ws, wanted.app, wanted.workflow, wanted.id)
         order by schedule.ws, schedule.app, schedule.workflow, schedule.id
         limit 1
       ) as found
