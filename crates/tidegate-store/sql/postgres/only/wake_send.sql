-- Notifies every listener that there may be work.
--
-- No payload, so that the server merges the notifications of one transaction into one. The channel
-- belongs to the schema, and its name is short enough for the name of any schema.
select pg_notify('tidegate_' || md5(current_schema()), '')
