-- Inserts a run that has ended.
--
-- ?1 seq   ?2 salt   ?3 ws   ?4 app   ?5 workflow   ?6 version   ?7 state   ?8 queued_at   ?9
-- ended_at   ?10 event_seq   ?11 body   ?12 lane
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into ended (seq, salt, ws, app, workflow, version, state, queued_at, ended_at, event_seq,
                   body, lane)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
