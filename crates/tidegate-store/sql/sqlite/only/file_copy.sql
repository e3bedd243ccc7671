-- Writes all rows as of one moment into another file, without the gaps of this one.
--
-- $1 the other file, which must not exist
-- Locks nothing: whoever writes goes on writing. Reads everything.
vacuum into ?1
