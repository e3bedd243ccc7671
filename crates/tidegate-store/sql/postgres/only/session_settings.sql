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
