-- Transactions are named by a token that they write themselves.
--
-- A row serves one transaction at a time, which overwrites the token in the flight that commits.
-- An xid cannot be the name: one whose log was never flushed is given out again after a crash or
-- a promotion, and then tells of somebody else's transaction. `closed` fences: a server process
-- that wakes up after the outcome was asked for finds it and fails. `at` is real time, by which
-- rows of processes that are gone are swept, whatever clock a test goes by.
--
-- Half of a page is left for updates, which touch no index.
create table tx_token (
  id     bigint not null primary key,
  token  bigint not null,
  closed bigint not null,
  at     timestamptz not null
) with (fillfactor = 50);

-- As before, and the error carries the table: a lost token row is met with another one.
create or replace function expect_rows(place text, changed bigint, wanted bigint)
returns bigint
language plpgsql
as $$
begin
  if changed <> wanted then
    raise exception using
      errcode = 'TG002',
      table = place,
      message = format('%s: %s rows should have changed, %s did', place, wanted, changed);
  end if;
  return changed;
end
$$;
