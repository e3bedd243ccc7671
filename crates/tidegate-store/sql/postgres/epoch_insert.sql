-- Inserts epochs.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into epoch
       (ws, n)
select new.ws, new.n
  from unnest($1::text[], $2::bigint[])
       as new(ws, n)
