-- Writes all rows of one snapshot into another file, without the unused pages of this one.
--
-- ?1 the other file, which must be missing or empty
-- Locks nothing: the writer can continue. Reads everything.
vacuum into ?1
