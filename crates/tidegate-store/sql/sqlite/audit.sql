-- name: audit_after
-- Reads rows of the audit log after a sequence number, oldest first.
--
-- ?1 after this number   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select {columns}
  from audit
 where seq > ?1
 order by seq
 limit ?2

-- name: audit_newest
-- Reads the newest rows of a workspace's audit log.
--
-- ?1 ws   ?2 below this number   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: audit_newest (ws, seq).
select {columns}
  from audit
 where ws = ?1
   and seq < ?2
 order by seq desc
 limit ?3

-- name: audit_of_subject
-- Reads the newest rows of a workspace's audit log on one subject.
--
-- ?1 ws   ?2 subject   ?3 below this number   ?4 limit
-- Locks nothing: SQLite has one writer.
-- Index: audit_subject (ws, subject, seq).
select {columns}
  from audit
 where ws = ?1
   and subject = ?2
   and seq < ?3
 order by seq desc
 limit ?4
