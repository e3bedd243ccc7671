-- Deletes a receipt.
--
-- ?1 seq
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was deleted.
delete from receipt
 where seq = ?1
