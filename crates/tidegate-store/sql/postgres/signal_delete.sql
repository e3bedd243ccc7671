-- Deletes signals by key.
--
-- $1 run   $2 name   $3 seq (arrays of one length)
-- The rows are deleted under the lock of the row that owns them.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with gone as (
    delete from signal
     using unnest($1::bigint[], $2::text[], $3::bigint[])
           as old(run, name, seq)
     where signal.ctid = (
            select found.ctid
              from signal as found
             where (found.run, found.name, found.seq)
                   between (old.run, old.name, old.seq)
                       and (old.run, old.name, old.seq)
             order by found.run, found.name, found.seq
             limit 1
           )
    returning 1
)
select expect_rows('signal', count(*), cardinality($1))
  from gone
