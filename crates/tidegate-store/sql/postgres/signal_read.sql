-- Reads signals by key.
--
-- $1 run   $2 name   $3 seq (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
select found.run, found.name, found.seq, found.data
  from unnest($1::bigint[], $2::text[], $3::bigint[])
       as wanted(run, name, seq)
 cross join lateral (
        select signal.run, signal.name, signal.seq, signal.data
          from signal
         where (signal.run, signal.name, signal.seq)
               between (wanted.run, wanted.name, wanted.seq)
                   and (wanted.run, wanted.name, wanted.seq)
         order by signal.run, signal.name, signal.seq
         limit 1
       ) as found
