-- Inserts a run that has not ended.
--
-- ?1 seq   ?2 salt   ?3 ws   ?4 lane   ?5 ready   ?6 line   ?7 tier   ?8 order_at   ?9 order_seq
-- ?10 due   ?11 owner   ?12 fence   ?13 body   ?14 event_seq   ?15 past   ?16 parked
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into run (seq, salt, ws, lane, ready, line, tier, order_at, order_seq, due, owner, fence,
                 body, event_seq, past, parked)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
