-- Counts the runs of a definition that have not ended, up to a limit.
--
-- ?1 lane   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_lane (lane, seq), index-only.
select count(*)
  from (select 1
          from run
         where lane = ?1
         limit ?2)
