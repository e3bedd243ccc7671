-- Counts the runs of a definition that engines own, up to a limit.
--
-- ?1 lane   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_owner, index-only and all of it: as many entries as runs that engines drive. The unary
-- plus rules out run_lane, which also has all waiting runs.
select count(*)
  from (select 1
          from run
         where owner is not null
           and +lane = ?1
         limit ?2)
