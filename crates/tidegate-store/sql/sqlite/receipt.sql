-- name: receipt_after
-- Reads receipts after a sequence number, oldest first.
--
-- ?1 after this number   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select {columns}
  from receipt
 where seq > ?1
 order by seq
 limit ?2

-- name: receipt_newest
-- Reads the newest receipts of a workspace.
--
-- ?1 ws   ?2 below this receipt   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: receipt_newest (ws, seq).
select {columns}
  from receipt
 where ws = ?1
   and seq < ?2
 order by seq desc
 limit ?3

-- name: receipt_of_event
-- Reads the receipts of an event.
--
-- ?1 event   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: receipt_event (event, seq).
select {columns}
  from receipt
 where event = ?1
 order by seq
 limit ?2
