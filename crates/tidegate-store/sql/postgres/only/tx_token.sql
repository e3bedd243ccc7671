-- name: tx_token_open
-- Inserts a token row, and sweeps up to a hundred that were unused for an hour.
--
-- $1 id, drawn at random
-- Locks the stale rows, and skips locked ones. Index: none; the table is small, and this runs once
-- for each row ever created, so that sweeping here keeps up with creation. A swept row may belong
-- to a live process: its next transaction fails and takes another row, and an outcome queried then
-- is unknown, never "aborted".
with stale as (
  select id
    from tx_token
   where at < clock_timestamp() - interval '1 hour'
   limit 100
     for update skip locked
), swept as (
  delete from tx_token
   using stale
   where tx_token.id = stale.id
)
insert into tx_token (id, token, closed, at)
values ($1::bigint, 0, 0, clock_timestamp())

-- name: tx_token_write
-- Writes the transaction's token, by which a COMMIT whose answer was lost is looked up (spec R10).
--
-- $1 id of the token row   $2 token, drawn at random for this attempt
-- Locks the row until the end of the transaction, the wait for a synchronous standby included.
-- Last before COMMIT, so that a fence stops a server process for as long as possible.
-- Index: the primary key. Fails the transaction (TG002) if the row is closed or swept.
with changed as (
  update tx_token
     set token = $2::bigint,
         at = clock_timestamp()
   where id = $1::bigint
     and closed = 0
  returning 1
)
select expect_rows('tx_token', count(*), 1)
  from changed

-- name: tx_token_close
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
