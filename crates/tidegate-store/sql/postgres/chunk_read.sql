-- Reads chunks of output by key.
--
-- $1 run   $2 step   $3 attempt   $4 n (arrays of one length)
-- Locks nothing. Index: the primary key. Row order is not promised.
select chunk.run, chunk.step, chunk.attempt, chunk.n, chunk.seq, chunk.data
  from chunk
  join unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[])
       as wanted(run, step, attempt, n)
    on chunk.run = wanted.run
   and chunk.step = wanted.step
   and chunk.attempt = wanted.attempt
   and chunk.n = wanted.n
