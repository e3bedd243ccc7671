-- Counts the runs in gates' lines, each up to a number.
--
-- $1 the gate's key   $2 how many at the most (arrays: one place for each count)
-- Locks nothing. Index: run_line, alone where the table was vacuumed.
-- Returns the count's place first, from 1.
select wanted.n, found.count
  from unnest($1::bytea[], $2::bigint[])
       with ordinality as wanted(key, most, n)
 cross join lateral (
        select count(*) as count
          from (select 1
                  from run
                 where run.line = (select gate.id from gate where gate.key = wanted.key)
                 limit wanted.most) as first
       ) as found
 order by wanted.n
