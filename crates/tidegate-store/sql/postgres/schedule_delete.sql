-- Deletes schedules by key.
--
-- $1 ws   $2 app   $3 workflow   $4 id (arrays of one length)
-- The rows are locked by schedule_lock.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with gone as (
    delete from schedule
     using unnest($1::text[], $2::text[], $3::text[], $4::text[])
           as old(ws, app, workflow, id)
     where schedule.ctid = (
            select found.ctid
              from schedule as found
             where (found.ws, found.app, found.workflow, found.id)
                   between (old.ws, old.app, old.workflow, old.id)
                       and (old.ws, old.app, old.workflow, old.id)
             order by found.ws, found.app, found.workflow, found.id
             limit 1
           )
    returning 1
)
select expect_rows('schedule', count(*), cardinality($1))
  from gone
