-- Creates the schema that schema_name has named, unless there is one of that name.
--
-- The name comes by a setting because `create schema` takes no parameter, and it is not pasted
-- into a statement by us. Who may not create schemas can be given one.
do $$
declare
  wanted text := current_setting('tidegate.schema');
begin
  if not exists (select 1 from pg_namespace where nspname = wanted) then
    execute format('create schema %I', wanted);
  end if;
end
$$
