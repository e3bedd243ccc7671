-- Creates the schema named by schema_name, unless it exists.
--
-- The name is passed by a setting because `create schema` takes no parameter, and we do not paste
-- it into a statement. A user without the right to create schemas can be given an existing one.
do $$
declare
  wanted text := current_setting('tidegate.schema');
begin
  if not exists (select 1 from pg_namespace where nspname = wanted) then
    execute format('create schema %I', wanted);
  end if;
end
$$
