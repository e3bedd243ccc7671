-- Inserts receipts.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into receipt
       (seq, ws, app, workflow, key, event, at, verdict)
select new.seq, new.ws, new.app, new.workflow, new.key, new.event, new.at, new.verdict
  from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[],
              $7::bigint[], $8::text[])
       as new(seq, ws, app, workflow, key, event, at, verdict)
