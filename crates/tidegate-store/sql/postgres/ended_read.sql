-- Reads ended runs by key.
--
-- $1 seq (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
select found.seq, found.salt, found.ws, found.app, found.workflow, found.version, found.state,
       found.queued_at, found.ended_at, found.event_seq, found.body, found.lane
  from unnest($1::bigint[])
       as wanted(seq)
 cross join lateral (
        select ended.seq, ended.salt, ended.ws, ended.app, ended.workflow, ended.version,
               ended.state, ended.queued_at, ended.ended_at, ended.event_seq, ended.body,
               ended.lane
          from ended
         where ended.seq between wanted.seq and wanted.seq
         order by ended.seq
         limit 1
       ) as found
