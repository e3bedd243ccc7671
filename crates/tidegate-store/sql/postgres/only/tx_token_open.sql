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
