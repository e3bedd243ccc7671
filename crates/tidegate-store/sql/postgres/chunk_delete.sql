-- Deletes chunks of output by key.
--
-- $1 run   $2 step   $3 attempt   $4 n (arrays of one length)
-- The rows are deleted under the lock of the row that owns them.
-- A row that is missing is an error (R2), raised here because COMMIT is already on its way.
with gone as (
    delete from chunk
     using unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[])
           as old(run, step, attempt, n)
     where chunk.run = old.run
       and chunk.step = old.step
       and chunk.attempt = old.attempt
       and chunk.n = old.n
    returning 1
)
select expect_rows('chunk', count(*), cardinality($1))
  from gone
