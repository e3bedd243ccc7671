-- Gives gates new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are locked by gate_lock.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with changed as (
    update gate
       set id    = new.id,
           at    = new.at,
           due   = new.due,
           state = new.state,
           event = new.event
      from unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[])
           as new(key, id, at, due, state, event)
     where gate.ctid = (
            select found.ctid
              from gate as found
             where found.key between new.key and new.key
             order by found.key
             limit 1
           )
    returning 1
)
select expect_rows('gate', count(*), cardinality($1))
  from changed
