-- Gives items of batches new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are written under the lock of the row that owns them.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with changed as (
    update item
       set event_seq  = new.event_seq,
           event_salt = new.event_salt
      from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
           as new(run, n, event_seq, event_salt)
     where item.ctid = (
            select found.ctid
              from item as found
             where (found.run, found.n) between (new.run, new.n) and (new.run, new.n)
             order by found.run, found.n
             limit 1
           )
    returning 1
)
select expect_rows('item', count(*), cardinality($1))
  from changed
