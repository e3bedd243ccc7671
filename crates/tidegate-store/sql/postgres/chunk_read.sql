-- Reads chunks of output by key.
--
-- $1 run   $2 step   $3 attempt   $4 n (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
select found.run, found.step, found.attempt, found.n, found.seq, found.data
  from unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[])
       as wanted(run, step, attempt, n)
 cross join lateral (
        select chunk.run, chunk.step, chunk.attempt, chunk.n, chunk.seq, chunk.data
          from chunk
         where (chunk.run, chunk.step, chunk.attempt, chunk.n)
               between (wanted.run, wanted.step, wanted.attempt, wanted.n)
                   and (wanted.run, wanted.step, wanted.attempt, wanted.n)
         order by chunk.run, chunk.step, chunk.attempt, chunk.n
         limit 1
       ) as found
