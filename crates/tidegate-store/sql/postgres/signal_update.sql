-- Gives signals new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are written under the lock of the row that owns them.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with changed as (
    update signal
       set data = new.data
      from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[])
           as new(run, name, seq, data)
     where signal.ctid = (
            select found.ctid
              from signal as found
             where (found.run, found.name, found.seq)
                   between (new.run, new.name, new.seq)
                       and (new.run, new.name, new.seq)
             order by found.run, found.name, found.seq
             limit 1
           )
    returning 1
)
select expect_rows('signal', count(*), cardinality($1))
  from changed
