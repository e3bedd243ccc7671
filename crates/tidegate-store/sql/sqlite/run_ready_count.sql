-- Counts the ready runs of a definition, up to a limit.
--
-- ?1 workspace   ?2 workflow   ?3 lane   ?4 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_ready (ws, ready, lane, ..) where ready is not null, index-only.
select count(*)
  from (select 1
          from run
         where ws = ?1
           and ready = ?2
           and lane = ?3
         limit ?4)
