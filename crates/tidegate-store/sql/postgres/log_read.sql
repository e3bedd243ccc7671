-- Reads stream events by key.
--
-- $1 stream   $2 version (arrays of one length)
-- Locks nothing. Index: the primary key. Row order is not promised.
select log.stream, log.version, log.ws, log.pos, log.seq, log.salt, log.name, log.at,
       log.data, log.meta
  from log
  join unnest($1::bigint[], $2::bigint[])
       as wanted(stream, version)
    on log.stream = wanted.stream
   and log.version = wanted.version
