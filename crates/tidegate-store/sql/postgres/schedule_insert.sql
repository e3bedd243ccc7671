-- Inserts schedules.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into schedule
       (ws, app, workflow, id, next, last, outcome, paused_at)
select new.ws, new.app, new.workflow, new.id, new.next, new.last, new.outcome, new.paused_at
  from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[],
              $7::text[], $8::bigint[])
       as new(ws, app, workflow, id, next, last, outcome, paused_at)
