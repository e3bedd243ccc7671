-- name: chore_due
-- Reads chores that are due at or after a time, earliest first.
--
-- $1 earliest due time (µs)   $2 limit
-- Locks nothing: its rows are hints. Index: chore_due.
select {columns}
  from chore
 where due is not null and due >= $1::bigint
 order by due, seq
 limit $2::bigint

-- name: chore_of_topic
-- Reads the chores that wake the runs waiting for an event name, oldest first.
--
-- $1 ws   $2 topic   $3 limit (arrays: one element per scan)
-- Locks nothing. Index: chore_topic.
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::text[], $2::text[], $3::bigint[])
       with ordinality as wanted(ws, topic, most, n)
 cross join lateral (
        select {chore.columns}
          from chore
         where (chore.ws, chore.topic) between (wanted.ws, wanted.topic)
                                           and (wanted.ws, wanted.topic)
           and chore.topic is not null
         order by chore.ws, chore.topic, chore.seq
         limit wanted.most
       ) as found
 order by wanted.n, found.seq

-- name: chore_newest
-- Reads the chores of a topic with a number below the given one, newest first.
--
-- $1 ws   $2 topic   $3 below this number   $4 limit (arrays: one element per scan)
-- Locks nothing. Index: chore_topic.
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[])
       with ordinality as wanted(ws, topic, below, most, n)
 cross join lateral (
        select {chore.columns}
          from chore
         where (chore.ws, chore.topic, chore.seq) < (wanted.ws, wanted.topic, wanted.below)
           and (chore.ws, chore.topic) >= (wanted.ws, wanted.topic)
           and chore.topic is not null
         order by chore.ws desc, chore.topic desc, chore.seq desc
         limit wanted.most
       ) as found
 order by wanted.n, found.seq desc
