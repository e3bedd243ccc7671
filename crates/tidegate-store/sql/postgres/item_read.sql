-- Reads items of batches by key.
--
-- $1 run   $2 n (arrays of one length)
-- Locks nothing. Index: the primary key. Row order is not promised.
select item.run, item.n, item.event_seq, item.event_salt
  from item
  join unnest($1::bigint[], $2::bigint[])
       as wanted(run, n)
    on item.run = wanted.run
   and item.n = wanted.n
