-- name: log_feed
-- Reads workspaces' stream events after a global position.
--
-- $1 ws   $2 after this position   $3 limit (arrays: one element per scan)
-- Locks nothing. Index: the unique key (ws, pos).
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::text[], $2::bigint[], $3::bigint[])
       with ordinality as wanted(ws, after, most, n)
 cross join lateral (
        select {log.columns}
          from log
         where log.ws = wanted.ws
           and log.pos > wanted.after
         order by log.pos
         limit wanted.most
       ) as found
 order by wanted.n, found.pos

-- name: log_feed_back
-- Reads workspaces' stream events before a global position, newest first.
--
-- $1 ws   $2 before this position   $3 limit (arrays: one element per scan)
-- Locks nothing. Index: the unique key (ws, pos).
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::text[], $2::bigint[], $3::bigint[])
       with ordinality as wanted(ws, before, most, n)
 cross join lateral (
        select {log.columns}
          from log
         where log.ws = wanted.ws
           and log.pos < wanted.before
         order by log.pos desc
         limit wanted.most
       ) as found
 order by wanted.n, found.pos desc

-- name: log_of_stream
-- Reads the events of streams from a version on.
--
-- $1 stream   $2 from this version   $3 limit (arrays: one element per scan)
-- Locks nothing. Index: the primary key.
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::bigint[], $2::bigint[], $3::bigint[])
       with ordinality as wanted(stream, start, most, n)
 cross join lateral (
        select {log.columns}
          from log
         where log.stream = wanted.stream
           and log.version >= wanted.start
         order by log.version
         limit wanted.most
       ) as found
 order by wanted.n, found.version
