-- Deletes engines by key.
--
-- $1 id (arrays of one length)
-- The rows are locked by engine_lock.
-- A row that is missing is an error (R2), raised here because COMMIT is already on its way.
with gone as (
    delete from engine
     using unnest($1::text[])
           as old(id)
     where engine.id = old.id
    returning 1
)
select expect_rows('engine', count(*), cardinality($1))
  from gone
