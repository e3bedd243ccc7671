-- Inserts definitions.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into def
       (lane, ws, app, name, version, body, released, assigned, deployed)
select new.lane, new.ws, new.app, new.name, new.version, new.body, new.released,
       new.assigned, new.deployed
  from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[],
              $7::bigint[], $8::bigint[], $9::bigint[])
       as new(lane, ws, app, name, version, body, released, assigned, deployed)
