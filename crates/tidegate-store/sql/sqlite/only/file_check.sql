-- Returns `ok`, or the defects of the file's pages and indexes.
--
-- Locks nothing. Reads everything.
pragma integrity_check(1)
