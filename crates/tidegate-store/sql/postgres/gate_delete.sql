-- Deletes gates by key.
--
-- $1 key (arrays of one length)
-- The rows are locked by gate_lock.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with gone as (
    delete from gate
     using unnest($1::bytea[])
           as old(key)
     where gate.ctid = (
            select found.ctid
              from gate as found
             where found.key between old.key and old.key
             order by found.key
             limit 1
           )
    returning 1
)
select expect_rows('gate', count(*), cardinality($1))
  from gone
