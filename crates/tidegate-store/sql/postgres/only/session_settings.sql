-- Sets what a connection of our own needs to prepare statements.
--
-- $1 search_path
select set_config('search_path', $1::text, false)
