-- Gives schedules new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are locked by schedule_lock.
-- A row that is missing is an error (R2), raised here because COMMIT is already on its way.
with changed as (
    update schedule
       set next = new.next,
           last = new.last
      from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[])
           as new(ws, app, workflow, id, next, last)
     where schedule.ws = new.ws
       and schedule.app = new.app
       and schedule.workflow = new.workflow
       and schedule.id = new.id
    returning 1
)
select expect_rows('schedule', count(*), cardinality($1))
  from changed
