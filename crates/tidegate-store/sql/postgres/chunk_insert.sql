-- Inserts chunks of output.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into chunk
       (run, step, attempt, n, seq, data)
select new.run, new.step, new.attempt, new.n, new.seq, new.data
  from unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[])
       as new(run, step, attempt, n, seq, data)
