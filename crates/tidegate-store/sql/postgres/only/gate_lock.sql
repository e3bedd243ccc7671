-- Locks gates by key and reads them as they are once the locks are there.
--
-- $1 key (arrays of one length)
-- Locks in the order of the arrays, which is that of the keys, waiting. Returns columns of the
-- locked rows only (spec R15): what lives in other rows is read by a later statement. An absent row
-- locks nothing (spec R3). Index: the primary key, once for each key (README).
select found.key, found.id, found.at, found.due, found.state, found.event
  from unnest($1::bytea[])
       as wanted(key)
 cross join lateral (
        select gate.key, gate.id, gate.at, gate.due, gate.state, gate.event
          from gate
         where gate.key between wanted.key and wanted.key
         order by gate.key
         limit 1
           for no key update
       ) as found
