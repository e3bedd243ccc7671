-- Reads log heads by key.
--
-- $1 ws (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
select found.ws, found.pos
  from unnest($1::text[])
       as wanted(ws)
 cross join lateral (
        select log_head.ws, log_head.pos
          from log_head
         where log_head.ws between wanted.ws and wanted.ws
         order by log_head.ws
         limit 1
       ) as found
