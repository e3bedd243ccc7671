-- Says `ok`, or what is wrong with the pages and indexes of the file.
--
-- Locks nothing. Reads everything.
pragma integrity_check(1)
