-- Counts the runs in a gate's line, up to a number.
--
-- ?1 the gate's key   ?2 how many at the most
-- Locks nothing: SQLite has one writer.
-- Index: run_line, alone.
select count(*)
  from (select 1
          from run
         where line = (select id from gate where key = ?1)
         limit ?2)
