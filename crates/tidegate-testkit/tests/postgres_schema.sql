-- Reads the current schema as SQL, one statement per object, for the test of schema.sql.
--
-- No parameters. Reads PostgreSQL's system catalogs instead of running pg_dump, so that the result
-- is the same for all versions.
select 1 as kind,
       sequencename::text as name,
       format('create sequence %s increment by %s start with %s cache %s',
              sequencename, increment_by, start_value, cache_size) as statement
  from pg_sequences
 where schemaname = current_schema()
 union all
select 2,
       proname::text,
       format(E'create function %s(%s)\nreturns %s\nlanguage %s\nas $$%s$$',
              proname, pg_get_function_arguments(pg_proc.oid),
              pg_get_function_result(pg_proc.oid), lanname, prosrc)
  from pg_proc
  join pg_language
    on pg_language.oid = prolang
 where pronamespace = current_schema()::regnamespace
 union all
select 3,
       relname::text,
       format(E'create table %s (\n  %s\n)%s', relname, string_agg(line, E',\n  ' order by n),
              ' with (' || array_to_string(reloptions, ', ') || ')')
  from pg_class
 cross join lateral (
        select attnum::integer as n,
               concat_ws(' ', attname, format_type(atttypid, atttypmod),
                         'collate "' || nullif(collname, 'default') || '"',
                         case when attnotnull then 'not null' end,
                         'default ' || pg_get_expr(adbin, adrelid)) as line
          from pg_attribute
          left join pg_collation
            on pg_collation.oid = attcollation
          left join pg_attrdef
            on adrelid = attrelid
           and adnum = attnum
         where attrelid = pg_class.oid
           and attnum > 0
           and not attisdropped
         union all
        select 10000 + (row_number() over (order by contype, conname))::integer,
               lower(pg_get_constraintdef(pg_constraint.oid, true))
          from pg_constraint
         where conrelid = pg_class.oid
           and contype in ('p', 'u', 'c', 'f')
       ) as lines
 where relnamespace = current_schema()::regnamespace
   and relkind = 'r'
 group by pg_class.oid, relname, reloptions
 union all
select 4,
       relname::text,
       pg_get_indexdef(indexrelid, 0, true)
  from pg_index
  join pg_class
    on pg_class.oid = indexrelid
 where relnamespace = current_schema()::regnamespace
   and not exists (select 1 from pg_constraint where conindid = indexrelid)
 order by kind, name
