-- Reads signals by key.
--
-- $1 run   $2 name   $3 seq (arrays of one length)
-- Locks nothing. Index: the primary key. Row order is not promised.
select signal.run, signal.name, signal.seq, signal.data
  from signal
  join unnest($1::bigint[], $2::text[], $3::bigint[])
       as wanted(run, name, seq)
    on signal.run = wanted.run
   and signal.name = wanted.name
   and signal.seq = wanted.seq
