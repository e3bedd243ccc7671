-- Gives schedules new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are locked by schedule_lock.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with changed as (
    update schedule
       set next = new.next,
           last = new.last,
           outcome = new.outcome,
           paused_at = new.paused_at
      from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[],
                  $7::text[], $8::bigint[])
           as new(ws, app, workflow, id, next, last, outcome, paused_at)
     where schedule.ctid = (
            select found.ctid
              from schedule as found
             where (found.ws, found.app, found.workflow, found.id)
                   between (new.ws, new.app, new.workflow, new.id)
                       and (new.ws, new.app, new.workflow, new.id)
             order by found.ws, found.app, found.workflow, found.id
             limit 1
           )
    returning 1
)
select expect_rows('schedule', count(*), cardinality($1))
  from changed
