-- Inserts chores.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into chore
       (seq, salt, ws, topic, due, work)
select new.seq, new.salt, new.ws, new.topic, new.due, new.work
  from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[])
       as new(seq, salt, ws, topic, due, work)
