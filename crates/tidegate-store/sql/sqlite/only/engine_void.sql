-- Declares all engines dead: the file has one owner, and opening it voids older leases.
--
-- No parameters. PostgreSQL has no equivalent: there, engines start and stop independently.
update engine
   set dead = 1
 where dead = 0
