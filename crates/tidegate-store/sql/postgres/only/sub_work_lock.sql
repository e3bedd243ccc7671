-- Locks a reaction's streams that have work and no live lease, longest waiting first.
-- Rows written before the clock stepped back come last: a claim caps their times.
--
-- $1 ws   $2 reaction   $3 limit
-- Never waits: skips rows locked by other transactions. Index: sub_work.
select ws, reaction, stream, work, at, want, owner, fence, until, due, since, failures,
       claims, blocked, log, error
  from sub
 where ws = $1::text
   and reaction = $2::text
   and work is not null
   and (((owner is null or until is null or until <= (select clock()))
         and (due is null or due <= (select clock())))
        or work > (select clock()) + 1000000)
 order by work, stream
 limit $3::bigint
   for no key update skip locked
