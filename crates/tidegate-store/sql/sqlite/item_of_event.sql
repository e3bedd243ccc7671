-- Reads an event's positions in batches.
--
-- ?1 event   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: item_event (event_seq).
select run, n, event_seq, event_salt
  from item
 where event_seq = ?1
 order by run, n
 limit ?2
