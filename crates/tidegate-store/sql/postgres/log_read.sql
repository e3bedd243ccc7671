-- Reads stream events by key.
--
-- $1 stream   $2 version (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
select found.stream, found.version, found.ws, found.pos, found.seq, found.salt, found.name,
       found.at, found.data, found.meta
  from unnest($1::bigint[], $2::bigint[])
       as wanted(stream, version)
 cross join lateral (
        select log.stream, log.version, log.ws, log.pos, log.seq, log.salt, log.name, log.at,
               log.data, log.meta
          from log
         where (log.stream, log.version)
               between (wanted.stream, wanted.version)
                   and (wanted.stream, wanted.version)
         order by log.stream, log.version
         limit 1
       ) as found
