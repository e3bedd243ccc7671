-- Inserts items of batches.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into item
       (run, n, event_seq, event_salt)
select new.run, new.n, new.event_seq, new.event_salt
  from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
       as new(run, n, event_seq, event_salt)
