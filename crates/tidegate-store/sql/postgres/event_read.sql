-- Reads events by key.
--
-- $1 seq (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
select found.seq, found.salt, found.ws, found.kind, found.name, found.at, found.ts, found.data
  from unnest($1::bigint[])
       as wanted(seq)
 cross join lateral (
        select event.seq, event.salt, event.ws, event.kind, event.name, event.at, event.ts,
               event.data
          from event
         where event.seq between wanted.seq and wanted.seq
         order by event.seq
         limit 1
       ) as found
