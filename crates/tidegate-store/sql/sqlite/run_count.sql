-- Counts the runs of a definition that have not ended, up to a number.
--
-- ?1 lane   ?2 how many at the most
-- Locks nothing: SQLite has one writer.
-- Index: run_lane (lane, seq), alone.
select count(*)
  from (select 1
          from run
         where lane = ?1
         limit ?2)
