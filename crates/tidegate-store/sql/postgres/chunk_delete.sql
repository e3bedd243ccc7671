-- Deletes chunks of output by key.
--
-- $1 run   $2 step   $3 attempt   $4 n (arrays of one length)
-- The rows are deleted under the lock of the row that owns them.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with gone as (
    delete from chunk
     using unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[])
           as old(run, step, attempt, n)
     where chunk.ctid = (
            select found.ctid
              from chunk as found
             where (found.run, found.step, found.attempt, found.n)
                   between (old.run, old.step, old.attempt, old.n)
                       and (old.run, old.step, old.attempt, old.n)
             order by found.run, found.step, found.attempt, found.n
             limit 1
           )
    returning 1
)
select expect_rows('chunk', count(*), cardinality($1))
  from gone
