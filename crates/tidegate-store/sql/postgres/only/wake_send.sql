-- Tells every listener that there may be work.
--
-- No payload, so that the server folds what is sent in one transaction into one. The channel
-- belongs to the schema, and its name is short enough for any schema's.
select pg_notify('tidegate_' || md5(current_schema()), '')
