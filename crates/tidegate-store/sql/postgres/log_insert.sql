-- Inserts stream events.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into log
       (stream, version, ws, pos, seq, salt, name, at, data, meta)
select new.stream, new.version, new.ws, new.pos, new.seq, new.salt, new.name, new.at,
       new.data, new.meta
  from unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[],
              $6::bigint[], $7::text[], $8::bigint[], $9::text[], $10::text[])
       as new(stream, version, ws, pos, seq, salt, name, at, data, meta)
