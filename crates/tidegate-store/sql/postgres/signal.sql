-- name: signal_inbox
-- Reads the signals of one name in the inboxes of runs, oldest first.
--
-- $1 run   $2 name   $3 limit (arrays: one element per scan)
-- Locks nothing. Index: the primary key.
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::bigint[], $2::text[], $3::bigint[])
       with ordinality as wanted(run, name, most, n)
 cross join lateral (
        select {signal.columns}
          from signal
         where signal.run = wanted.run
           and signal.name = wanted.name
         order by signal.seq
         limit wanted.most
       ) as found
 order by wanted.n, found.seq

-- name: signal_of_run
-- Reads all signals in runs' inboxes.
--
-- $1 run   $2 limit (arrays: one element per scan)
-- Locks nothing. Index: the primary key.
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::bigint[], $2::bigint[])
       with ordinality as wanted(run, most, n)
 cross join lateral (
        select {signal.columns}
          from signal
         where signal.run = wanted.run
         order by signal.name, signal.seq
         limit wanted.most
       ) as found
 order by wanted.n, found.name, found.seq
