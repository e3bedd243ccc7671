-- Deletes schedules by key.
--
-- $1 ws   $2 app   $3 workflow   $4 id (arrays of one length)
-- The rows are locked by schedule_lock.
-- A row that is missing is an error (R2), raised here because COMMIT is already on its way.
with gone as (
    delete from schedule
     using unnest($1::text[], $2::text[], $3::text[], $4::text[])
           as old(ws, app, workflow, id)
     where schedule.ws = old.ws
       and schedule.app = old.app
       and schedule.workflow = old.workflow
       and schedule.id = old.id
    returning 1
)
select expect_rows('schedule', count(*), cardinality($1))
  from gone
