-- Reads the settings that decide whether this server can be trusted with a commit. Settings unknown
-- to the server are empty, so that the check of a server that is not PostgreSQL gets as far as its
-- name.
select pg_is_in_recovery(),
       coalesce(current_setting('synchronous_commit', true), ''),
       coalesce(current_setting('fsync', true), ''),
       coalesce(current_setting('server_version_num', true), '0')::bigint,
       version()
