-- Sets the schema's name for schema_create, until the transaction ends.
--
-- $1 the schema's name
select set_config('tidegate.schema', $1::text, true)
