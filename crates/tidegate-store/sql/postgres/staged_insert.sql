-- Inserts operations that runs have staged.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into staged
       (run, n, app, flow, id, op, version, seen)
select new.run, new.n, new.app, new.flow, new.id, new.op, new.version, new.seen
  from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[],
              $7::bigint[], $8::text[])
       as new(run, n, app, flow, id, op, version, seen)
