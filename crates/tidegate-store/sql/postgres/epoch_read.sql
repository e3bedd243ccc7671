-- Reads epochs by key.
--
-- $1 ws (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
select found.ws, found.n
  from unnest($1::text[])
       as wanted(ws)
 cross join lateral (
        select epoch.ws, epoch.n
          from epoch
         where epoch.ws between wanted.ws and wanted.ws
         order by epoch.ws
         limit 1
       ) as found
