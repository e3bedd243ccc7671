-- Reads steps by key.
--
-- $1 run   $2 id (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
select found.run, found.id, found.kind, found.fence, found.at, found.ok, found.out, found.seq
  from unnest($1::bigint[], $2::text[])
       as wanted(run, id)
 cross join lateral (
        select step.run, step.id, step.kind, step.fence, step.at, step.ok, step.out, step.seq
          from step
         where (step.run, step.id) between (wanted.run, wanted.id) and (wanted.run, wanted.id)
         order by step.run, step.id
         limit 1
       ) as found
