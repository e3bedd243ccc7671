-- Reads definitions by key.
--
-- $1 lane (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
select found.lane, found.ws, found.app, found.name, found.version, found.body, found.released,
       found.assigned, found.deployed
  from unnest($1::bigint[])
       as wanted(lane)
 cross join lateral (
        select def.lane, def.ws, def.app, def.name, def.version, def.body, def.released,
               def.assigned, def.deployed
          from def
         where def.lane between wanted.lane and wanted.lane
         order by def.lane
         limit 1
       ) as found
