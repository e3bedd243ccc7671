-- Reads the lease of a name, good or run out.
--
-- ?1 name   ?2 now
-- Index: the primary key.
select holder, fence, until, until - ?2 as left
  from lease
 where name = ?1
