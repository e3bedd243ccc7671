-- Locks log heads by key and reads them as they are once the locks are there.
--
-- $1 ws (arrays of one length)
-- Locks in the order of the arrays, which is that of the keys, waiting. Returns columns of the
-- locked rows only (spec R15): what lives in other rows is read by a later statement. An absent row
-- locks nothing (spec R3). Index: the primary key, once for each key (README).
select found.ws, found.pos
  from unnest($1::text[])
       as wanted(ws)
 cross join lateral (
        select log_head.ws, log_head.pos
          from log_head
         where log_head.ws between wanted.ws and wanted.ws
         order by log_head.ws
         limit 1
           for no key update
       ) as found
