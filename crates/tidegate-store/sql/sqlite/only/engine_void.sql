-- Declares all engines dead: the file has one owner, and opening it voids older leases.
--
-- No parameters. PostgreSQL has no such moment: there, engines come and go one by one.
update engine
   set dead = 1
 where dead = 0
