-- Reads a session's document by its key.
--
-- ?1 ws   ?2 app   ?3 flow   ?4 id
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select ws, app, flow, id, version, body
  from session
 where ws = ?1
   and app = ?2
   and flow = ?3
   and id = ?4
