-- Counts the runs in a gate's queue, up to a limit.
--
-- ?1 the gate's key   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_line, index-only.
select count(*)
  from (select 1
          from run
         where line = (select id from gate where key = ?1)
         limit ?2)
