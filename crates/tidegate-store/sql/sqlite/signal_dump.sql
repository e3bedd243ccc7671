-- Reads all signals in inboxes, in order of their keys.
--
-- Locks nothing. Index: the primary key.
select run, name, seq, data
  from signal
 order by run, name, seq
