-- Inserts runs.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into run
       (seq, salt, ws, lane, ready, line, tier, order_at, order_seq, due, owner, fence,
        body, event_seq, past, parked)
select new.seq, new.salt, new.ws, new.lane, new.ready, new.line, new.tier, new.order_at,
       new.order_seq, new.due, new.owner, new.fence, new.body, new.event_seq, new.past,
       new.parked
  from unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[],
              $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[],
              $11::text[], $12::bigint[], $13::text[], $14::bigint[], $15::bigint[],
              $16::text[])
       as new(seq, salt, ws, lane, ready, line, tier, order_at, order_seq, due, owner,
              fence, body, event_seq, past, parked)
