-- Inserts a reaction's place in a stream.
--
-- ?1 ws   ?2 reaction   ?3 stream   ?4 work   ?5 at   ?6 want   ?7 owner   ?8 fence   ?9 until
-- ?10 due   ?11 since   ?12 failures   ?13 claims   ?14 blocked   ?15 log   ?16 error
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into sub (ws, reaction, stream, work, at, want, owner, fence, until, due, since, failures,
                 claims, blocked, log, error)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
