-- Reads the events of streams from a version on.
--
-- $1 stream   $2 start   $3 limit (arrays: one element per scan)
-- Locks nothing. Index: the primary key.
-- First column: index of the scan, from 1.
select wanted.n, found.stream, found.version, found.ws, found.pos, found.seq,
       found.salt, found.name, found.at, found.data, found.meta
  from unnest($1::bigint[], $2::bigint[], $3::bigint[])
       with ordinality as wanted(stream, start, most, n)
 cross join lateral (
        select log.stream, log.version, log.ws, log.pos, log.seq, log.salt, log.name,
               log.at, log.data, log.meta
          from log
         where log.stream = wanted.stream
           and log.version >= wanted.start
         order by log.version
         limit wanted.most
       ) as found
 order by wanted.n, found.version
