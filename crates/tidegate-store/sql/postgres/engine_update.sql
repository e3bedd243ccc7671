-- Gives engines new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are locked by engine_lock.
-- A row that is missing is an error (R2), raised here because COMMIT is already on its way.
with changed as (
    update engine
       set beat   = new.beat,
           dead   = new.dead,
           serves = new.serves
      from unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[])
           as new(id, beat, dead, serves)
     where engine.id = new.id
    returning 1
)
select expect_rows('engine', count(*), cardinality($1))
  from changed
