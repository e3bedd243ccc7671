-- Reads runs by key.
--
-- $1 seq (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
select found.seq, found.salt, found.ws, found.lane, found.ready, found.line, found.tier,
       found.order_at, found.order_seq, found.due, found.owner, found.fence, found.body,
       found.event_seq, found.past, found.parked
  from unnest($1::bigint[])
       as wanted(seq)
 cross join lateral (
        select run.seq, run.salt, run.ws, run.lane, run.ready, run.line, run.tier, run.order_at,
               run.order_seq, run.due, run.owner, run.fence, run.body, run.event_seq, run.past,
               run.parked
          from run
         where run.seq between wanted.seq and wanted.seq
         order by run.seq
         limit 1
       ) as found
