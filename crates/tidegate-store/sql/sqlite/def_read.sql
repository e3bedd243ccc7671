-- Reads a definition by its key.
--
-- ?1 lane
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select lane, ws, app, name, version, body, released, assigned, deployed
  from def
 where lane = ?1
