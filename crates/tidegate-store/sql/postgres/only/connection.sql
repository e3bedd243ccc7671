-- name: session_settings
-- Sets the options for all transactions of a connection that is not shared by a pooler.
--
-- $1 search_path   $2 lock_timeout   $3 statement_timeout   $4 idle_in_transaction_session_timeout
-- The same settings as in tx_settings, for the reasons given there. If the client disappears in the
-- middle of a pipeline, the server detects it by keepalives: no timeout runs before the Sync
-- message that ends the pipeline (spec R16).
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
-- Reads the settings by which the store decides whether a commit on this server is durable. A
-- setting that the server does not have is empty, not an error, so that a server that is not
-- PostgreSQL can be refused by its name.
select pg_is_in_recovery(),
       coalesce(current_setting('synchronous_commit', true), ''),
       coalesce(current_setting('fsync', true), ''),
       coalesce(current_setting('server_version_num', true), '0')::bigint,
       version()

-- name: clock_read
-- Reads the server's clock, in microseconds since 1970.
select clock()

-- name: wake_listen
-- Listens for wake-ups of this schema.
--
-- `listen` takes no parameter. The server builds the statement, so that no Rust code composes SQL.
do $$
begin
  execute format('listen %I', 'tidegate_' || md5(current_schema()));
end
$$

-- name: wake_send
-- Notifies all listeners of this schema that there may be work.
--
-- Has no payload, so that the server merges the notifications of one transaction into one. The name
-- of the channel is a hash of the schema's name, because the length of channel names is limited.
select pg_notify('tidegate_' || md5(current_schema()), '')
