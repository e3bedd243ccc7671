-- Inserts sessions' documents.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into session
       (ws, app, flow, id, version, body)
select new.ws, new.app, new.flow, new.id, new.version, new.body
  from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[])
       as new(ws, app, flow, id, version, body)
