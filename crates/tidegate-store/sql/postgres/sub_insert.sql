-- Inserts places of reactions.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into sub
       (ws, reaction, stream, work, at, want, owner, fence, until, due, since, failures,
        claims, blocked, log, error)
select new.ws, new.reaction, new.stream, new.work, new.at, new.want, new.owner, new.fence,
       new.until, new.due, new.since, new.failures, new.claims, new.blocked,
       new.log, new.error
  from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
              $7::text[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[],
              $12::bigint[], $13::bigint[], $14::text[], $15::bigint[], $16::text[])
       as new(ws, reaction, stream, work, at, want, owner, fence, until, due, since,
              failures, claims, blocked, log, error)
