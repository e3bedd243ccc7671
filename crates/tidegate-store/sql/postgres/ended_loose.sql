-- Reads unreferenced ended runs with `after < seq <= until`: no run refers to them any more.
--
-- $1 after   $2 until   $3 limit
-- Locks nothing: a hint.
-- Indexes: the primary key; run_past.
select seq, salt, ws, app, workflow, version, state, queued_at, ended_at, event_seq, body,
       lane
  from ended
 where seq > $1::bigint
   and seq <= $2::bigint
   and (select run.seq from run where run.past = ended.seq limit 1) is null
   and (select run.seq
          from run
         where run.seq between ended.seq and ended.seq
         order by run.seq
         limit 1) is null
 order by seq
 limit $3::bigint
