-- Inserts stream heads.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into stream
       (ws, name, id, head, closed)
select new.ws, new.name, new.id, new.head, new.closed
  from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[])
       as new(ws, name, id, head, closed)
