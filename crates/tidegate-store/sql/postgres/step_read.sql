-- Reads steps by key.
--
-- $1 run   $2 id (arrays of one length)
-- Locks nothing. Index: the primary key. Row order is not promised.
select step.run, step.id, step.kind, step.fence, step.at, step.ok, step.out, step.seq
  from step
  join unnest($1::bigint[], $2::text[])
       as wanted(run, id)
    on step.run = wanted.run
   and step.id = wanted.id
