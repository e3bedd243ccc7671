-- Reads all events of batches, in order of their keys.
--
-- Locks nothing. Index: the primary key.
select run, n, event_seq, event_salt
  from item
 order by run, n
