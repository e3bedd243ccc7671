-- Listens for wake-ups of this schema.
--
-- `listen` takes no parameter, and the name of the channel is not ours to paste into a statement.
do $$
begin
  execute format('listen %I', 'tidegate_' || md5(current_schema()));
end
$$
