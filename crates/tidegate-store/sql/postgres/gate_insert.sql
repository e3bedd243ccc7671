-- Inserts gates.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into gate
       (key, id, at, due, state, event)
select new.key, new.id, new.at, new.due, new.state, new.event
  from unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[])
       as new(key, id, at, due, state, event)
