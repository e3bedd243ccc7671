-- Reads gates by key.
--
-- $1 key (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
select found.key, found.id, found.at, found.due, found.state, found.event
  from unnest($1::bytea[])
       as wanted(key)
 cross join lateral (
        select gate.key, gate.id, gate.at, gate.due, gate.state, gate.event
          from gate
         where gate.key between wanted.key and wanted.key
         order by gate.key
         limit 1
       ) as found
