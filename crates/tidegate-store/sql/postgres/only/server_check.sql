-- Reads what decides whether this server can be trusted with a commit.
select pg_is_in_recovery(),
       current_setting('synchronous_commit'),
       current_setting('fsync'),
       current_setting('server_version_num')::bigint
