-- Listens for wake-ups of this schema.
--
-- `listen` takes no parameter, and we do not paste the name of the channel into a statement.
do $$
begin
  execute format('listen %I', 'tidegate_' || md5(current_schema()));
end
$$
