-- Inserts signals.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into signal
       (run, name, seq, data)
select new.run, new.name, new.seq, new.data
  from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[])
       as new(run, name, seq, data)
