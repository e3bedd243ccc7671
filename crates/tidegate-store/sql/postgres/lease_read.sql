-- Reads the lease of a name, good or run out.
--
-- $1 name
-- Locks nothing: the caller holds the name's latch. Index: the primary key.
select holder, fence, until, until - clock() as left
  from lease
 where name = $1::text
