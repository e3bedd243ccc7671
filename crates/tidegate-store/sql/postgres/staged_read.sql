-- Reads operations that runs have staged by key.
--
-- $1 run   $2 n (arrays of one length)
-- Locks nothing. Index: the primary key. Row order is not promised.
select staged.run, staged.n, staged.app, staged.flow, staged.id, staged.op, staged.version,
       staged.seen
  from staged
  join unnest($1::bigint[], $2::bigint[])
       as wanted(run, n)
    on staged.run = wanted.run
   and staged.n = wanted.n
