-- name: sub_of_workspace
-- Reads the subscriptions of workspaces, after a given subscription.
--
-- $1 ws   $2 after this reaction   $3 and this stream   $4 limit (arrays: one element per scan)
-- Locks nothing. Index: the primary key.
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
       with ordinality as wanted(ws, reaction, stream, most, n)
 cross join lateral (
        select {sub.columns}
          from sub
         where sub.ws = wanted.ws
           and (sub.reaction, sub.stream) > (wanted.reaction, wanted.stream)
         order by sub.reaction, sub.stream
         limit wanted.most
       ) as found
 order by wanted.n, found.reaction, found.stream

-- name: sub_work
-- Reads a reaction's streams that have work and no live lease, longest waiting first.
-- Includes rows with times in the future, from before the clock stepped back, as the last ones: the
-- claim corrects their times.
--
-- $1 ws   $2 reaction   $3 limit
-- Locks nothing. Index: sub_work.
select {columns}
  from sub
 where ws = $1::text
   and reaction = $2::text
   and work is not null
   and (((owner is null or until is null or until <= (select clock()))
         and (due is null or due <= (select clock())))
        or work > (select clock()) + 1000000)
 order by work, stream
 limit $3::bigint

-- name: sub_work_lock
-- Locks a reaction's streams that have work and no live lease, longest waiting first.
-- Includes rows with times in the future, from before the clock stepped back, as the last ones: the
-- claim corrects their times.
--
-- $1 ws   $2 reaction   $3 limit
-- Never waits: skips rows locked by other transactions. Index: sub_work.
select {columns}
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
