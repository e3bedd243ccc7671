-- Closes a token row and reads its token.
--
-- $1 id of the token row
-- Locks the row: waits for a server process that is still committing. A process that has not yet
-- written its token cannot do so any more, even if it was suspended and has the whole flight
-- unread. Proves nothing before its own COMMIT is answered. Can be retried. Index: the primary key.
-- No row: it was swept, or never reached this server; proves nothing.
update tx_token
   set closed = 1
 where id = $1::bigint
returning token
