-- name: tx_token_open
-- Inserts a token row, and deletes up to a hundred token rows that were unused for an hour.
--
-- $1 id, drawn at random
-- Locks the unused rows, and skips rows that are locked. Index: none, the table is small: every
-- insert also deletes old rows. If a deleted row belongs to a live process, the next transaction of
-- that process fails and takes another row; the outcome of a transaction on a deleted row is
-- unknown, never "aborted".
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
-- Writes the transaction's token. If the answer to COMMIT is lost, tx_token_close reads the token
-- to find out whether the transaction was committed (spec R10).
--
-- $1 id of the token row   $2 token, drawn at random for this attempt
-- Locks the row until the end of the transaction, including the wait for a synchronous standby.
-- Runs last before COMMIT, so that tx_token_close can prevent the commit for as long as possible.
-- Index: the primary key. Fails the transaction (TG002) if the row is closed or deleted.
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
-- Locks the row: waits for a server process that is still committing. A server process that has not
-- yet written its token can no longer write it, even if it was suspended and has not yet read the
-- statements of its transaction. The result is valid only after the COMMIT of this statement is
-- answered. Can be retried. Index: the primary key.
-- Returns no row if the row was deleted, or was never written on this server: the outcome is then
-- unknown.
update tx_token
   set closed = 1
 where id = $1::bigint
returning token
