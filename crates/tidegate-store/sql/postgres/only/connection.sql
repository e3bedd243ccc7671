-- name: session_settings
-- Makes the settings for all transactions of one of our own connections, until it is closed.
--
-- $1 search_path   $2 lock_timeout   $3 statement_timeout   $4 idle_in_transaction_session_timeout
-- The same as tx_settings, whose comments apply. A peer that disappears in the middle of a flight
-- is detected by keepalives: no timeout runs before the flight's Sync (spec R16).
select set_config('search_path', $1::text, false),
       set_config('lock_timeout', $2::text, false),
       set_config('statement_timeout', $3::text, false),
       set_config('idle_in_transaction_session_timeout', $4::text, false),
       set_config('enable_seqscan', 'off', false),
       set_config('enable_bitmapscan', 'off', false),
       set_config('enable_sort', 'off', false),
       set_config('enable_incremental_sort', 'off', false),
       set_config('enable_hashjoin', 'off', false),
       set_config('enable_mergejoin', 'off', false),
       set_config('plan_cache_mode', 'force_generic_plan', false),
       set_config('jit', 'off', false),
       set_config('tcp_keepalives_idle', '5', false),
       set_config('tcp_keepalives_interval', '1', false),
       set_config('tcp_keepalives_count', '3', false)

-- name: server_check
-- Reads the settings that decide whether this server can be trusted with a commit. Settings unknown
-- to the server are empty, so that the check of a server that is not PostgreSQL gets as far as its
-- name.
select pg_is_in_recovery(),
       coalesce(current_setting('synchronous_commit', true), ''),
       coalesce(current_setting('fsync', true), ''),
       coalesce(current_setting('server_version_num', true), '0')::bigint,
       version()

-- name: clock_read
-- Reads the clock, in microseconds.
select clock()

-- name: wake_listen
-- Listens for wake-ups of this schema.
--
-- `listen` takes no parameter, and we do not paste the name of the channel into a statement.
do $$
begin
  execute format('listen %I', 'tidegate_' || md5(current_schema()));
end
$$

-- name: wake_send
-- Notifies every listener that there may be work.
--
-- No payload, so that the server merges the notifications of one transaction into one. The channel
-- belongs to the schema, and its name is short enough for the name of any schema.
select pg_notify('tidegate_' || md5(current_schema()), '')
