-- Names the schema to schema_create, for as long as the transaction lasts.
--
-- $1 the schema's name
select set_config('tidegate.schema', $1::text, true)
