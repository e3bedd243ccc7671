-- Counts the runs of a definition that wait or are paused, up to a limit.
--
-- ?1 lane   ?2 `waiting` or `paused`   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_parked (lane, parked) where parked is not null, index-only.
select count(*)
  from (select 1
          from run
         where lane = ?1
           and parked = ?2
         limit ?3)
