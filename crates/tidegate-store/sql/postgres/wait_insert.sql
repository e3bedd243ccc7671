-- Inserts waits.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into wait
       (ws, name, path, value, run, step)
select new.ws, new.name, new.path, new.value, new.run, new.step
  from unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::text[])
       as new(ws, name, path, value, run, step)
