-- Inserts a token row, and sweeps a hundred that nobody has used for an hour.
--
-- $1 id, drawn at random
-- Locks the stale rows, and skips those that are locked. Index: none; the table is small, and this
-- runs once for each row that is ever made, so that sweeping here keeps up with making.
-- A swept row may be that of a living process: its next transaction fails and takes another row,
-- and an outcome that is asked for then is unknown, never "aborted".
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
