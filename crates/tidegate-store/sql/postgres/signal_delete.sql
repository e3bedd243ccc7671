-- Deletes signals by key.
--
-- $1 run   $2 name   $3 seq (arrays of one length)
-- The rows are deleted under the lock of the row that owns them.
-- A row that is missing is an error (R2), raised here because COMMIT is already on its way.
with gone as (
    delete from signal
     using unnest($1::bigint[], $2::text[], $3::bigint[])
           as old(run, name, seq)
     where signal.run = old.run
       and signal.name = old.name
       and signal.seq = old.seq
    returning 1
)
select expect_rows('signal', count(*), cardinality($1))
  from gone
