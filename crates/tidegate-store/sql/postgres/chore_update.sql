-- Gives chores new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are locked by chore_lock.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with changed as (
    update chore
       set salt = new.salt,
           ws = new.ws,
           topic = new.topic,
           due = new.due,
           work = new.work
      from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[])
           as new(seq, salt, ws, topic, due, work)
     where chore.ctid = (
            select found.ctid
              from chore as found
             where found.seq between new.seq and new.seq
             order by found.seq
             limit 1
           )
    returning 1
)
select expect_rows('chore', count(*), cardinality($1))
  from changed
