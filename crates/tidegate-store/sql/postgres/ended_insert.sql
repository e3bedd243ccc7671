-- Inserts ended runs.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into ended
       (seq, salt, ws, app, workflow, version, state, queued_at, ended_at, event_seq, body,
        lane)
select new.seq, new.salt, new.ws, new.app, new.workflow, new.version, new.state,
       new.queued_at, new.ended_at, new.event_seq, new.body, new.lane
  from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[],
              $7::text[], $8::bigint[], $9::bigint[], $10::bigint[], $11::text[], $12::bigint[])
       as new(seq, salt, ws, app, workflow, version, state, queued_at, ended_at, event_seq,
              body, lane)
