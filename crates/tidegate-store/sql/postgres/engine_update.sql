-- Gives engines new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are locked by engine_lock.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with changed as (
    update engine
       set beat     = new.beat,
           dead     = new.dead,
           serves   = new.serves,
           lease_ms = new.lease_ms
      from unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[])
           as new(id, beat, dead, serves, lease_ms)
     where engine.ctid = (
            select found.ctid
              from engine as found
             where found.id between new.id and new.id
             order by found.id
             limit 1
           )
    returning 1
)
select expect_rows('engine', count(*), cardinality($1))
  from changed
