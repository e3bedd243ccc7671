-- Reads all events and other inputs, in order of their keys.
--
-- Locks nothing. Index: the primary key.
select seq, salt, ws, kind, name, at, ts, data
  from event
 order by seq
