-- Inserts events.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into event
       (seq, salt, ws, kind, name, at, ts, data)
select new.seq, new.salt, new.ws, new.kind, new.name, new.at, new.ts, new.data
  from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[],
              $7::bigint[], $8::text[])
       as new(seq, salt, ws, kind, name, at, ts, data)
