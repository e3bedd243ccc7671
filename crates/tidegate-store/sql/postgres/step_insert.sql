-- Inserts steps.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into step
       (run, id, kind, fence, at, ok, out, seq)
select new.run, new.id, new.kind, new.fence, new.at, new.ok, new.out, new.seq
  from unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[],
              $6::bigint[], $7::text[], $8::bigint[])
       as new(run, id, kind, fence, at, ok, out, seq)
