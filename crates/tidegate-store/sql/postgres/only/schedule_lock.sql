-- Locks schedules by key and reads them as they are once the locks are there.
--
-- $1 ws   $2 app   $3 workflow   $4 id (arrays of one length)
-- Locks in the order of the arrays, which is that of the keys, waiting. Returns columns of the
-- locked rows only (spec R15): what lives in other rows is read by a later statement. An absent row
-- locks nothing (spec R3). Index: the primary key, once for each key (README).
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
           for no key update
       ) as found
