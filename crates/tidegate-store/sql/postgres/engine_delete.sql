-- Deletes engines by key.
--
-- $1 id (arrays of one length)
-- The rows are locked by engine_lock.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with gone as (
    delete from engine
     using unnest($1::text[])
           as old(id)
     where engine.ctid = (
            select found.ctid
              from engine as found
             where found.id between old.id and old.id
             order by found.id
             limit 1
           )
    returning 1
)
select expect_rows('engine', count(*), cardinality($1))
  from gone
