-- Reads operations that runs have staged by key.
--
-- $1 run   $2 n (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
select found.run, found.n, found.app, found.flow, found.id, found.op, found.version, found.seen
  from unnest($1::bigint[], $2::bigint[])
       as wanted(run, n)
 cross join lateral (
        select staged.run, staged.n, staged.app, staged.flow, staged.id, staged.op, staged.version,
               staged.seen
          from staged
         where (staged.run, staged.n) between (wanted.run, wanted.n) and (wanted.run, wanted.n)
         order by staged.run, staged.n
         limit 1
       ) as found
