-- Counts the runs of a definition that wait or are paused, up to a number.
--
-- ?1 lane   ?2 `waiting` or `paused`   ?3 how many at the most
-- Locks nothing: SQLite has one writer.
-- Index: run_parked (lane, parked) where parked is not null, alone.
select count(*)
  from (select 1
          from run
         where lane = ?1
           and parked = ?2
         limit ?3)
