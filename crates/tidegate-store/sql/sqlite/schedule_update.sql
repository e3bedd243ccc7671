-- Updates a schedule.
--
-- ?1 ws   ?2 app   ?3 workflow   ?4 id   ?5 next   ?6 last   ?7 outcome   ?8 paused_at
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was changed.
update schedule
   set next = ?5,
       last = ?6,
       outcome = ?7,
       paused_at = ?8
 where ws = ?1
   and app = ?2
   and workflow = ?3
   and id = ?4
