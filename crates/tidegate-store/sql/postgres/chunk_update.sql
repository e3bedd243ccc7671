-- Gives chunks of output new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are written under the lock of the row that owns them.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with changed as (
    update chunk
       set seq  = new.seq,
           data = new.data
      from unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[],
                  $6::text[])
           as new(run, step, attempt, n, seq, data)
     where chunk.ctid = (
            select found.ctid
              from chunk as found
             where (found.run, found.step, found.attempt, found.n)
                   between (new.run, new.step, new.attempt, new.n)
                       and (new.run, new.step, new.attempt, new.n)
             order by found.run, found.step, found.attempt, found.n
             limit 1
           )
    returning 1
)
select expect_rows('chunk', count(*), cardinality($1))
  from changed
