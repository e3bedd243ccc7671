-- name: sub_of_workspace
-- Reads the subscriptions of a workspace, after a given subscription.
--
-- ?1 ws   ?2 after this reaction   ?3 and this stream   ?4 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select {columns}
  from sub
 where ws = ?1
   and (reaction, stream) > (?2, ?3)
 order by reaction, stream
 limit ?4

-- name: sub_work
-- Reads a reaction's streams that have work and no live lease, longest waiting first.
-- Includes rows with times in the future, from before the clock stepped back, as the last ones: the
-- claim corrects their times.
--
-- ?1 ws   ?2 reaction   ?3 now (µs)   ?4 limit
-- Locks nothing: SQLite has one writer.
-- Index: sub_work (ws, reaction, work, stream) where work is not null.
select {columns}
  from sub
 where ws = ?1
   and reaction = ?2
   and work is not null
   and (((owner is null or until is null or until <= ?3)
         and (due is null or due <= ?3))
        or work > ?3 + 1000000)
 order by work, stream
 limit ?4
