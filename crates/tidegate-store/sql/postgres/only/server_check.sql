-- Reads what decides whether this server can be trusted with a commit. Settings that a server does
-- not know are empty, so that one that is not PostgreSQL gets as far as its name.
select pg_is_in_recovery(),
       coalesce(current_setting('synchronous_commit', true), ''),
       coalesce(current_setting('fsync', true), ''),
       coalesce(current_setting('server_version_num', true), '0')::bigint,
       version()
