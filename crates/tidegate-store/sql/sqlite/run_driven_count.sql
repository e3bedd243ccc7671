-- Counts the runs of a definition that engines own, up to a number.
--
-- ?1 lane   ?2 how many at the most
-- Locks nothing: SQLite has one writer.
-- Index: run_owner, alone and all of it: as many as all engines drive. The plus keeps it from
-- run_lane, which has all that wait as well.
select count(*)
  from (select 1
          from run
         where owner is not null
           and +lane = ?1
         limit ?2)
