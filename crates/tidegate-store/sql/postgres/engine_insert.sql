-- Inserts engines.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into engine
       (id, beat, dead, serves, lease_ms)
select new.id, new.beat, new.dead, new.serves, new.lease_ms
  from unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[])
       as new(id, beat, dead, serves, lease_ms)
