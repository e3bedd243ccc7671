-- Reads unreferenced events with `after < seq <= until`: no run, ended run, batch or window refers
-- to them any more.
--
-- $1 after   $2 until   $3 limit
-- Locks nothing: a hint.
-- Indexes: the primary keys of event, and of run and ended in the blocks around the event's;
-- run_far, ended_far, item_event, gate_event. Runs stored before the column `event_seq` existed
-- keep all events near them.
select seq, salt, ws, kind, name, at, ts, data
  from event
 where seq > $1::bigint
   and seq <= $2::bigint
   and (select run.seq
          from run
         where run.seq >= ((event.seq >> 12) - 1) << 12
           and run.seq < ((event.seq >> 12) + 2) << 12
           and coalesce(run.event_seq, event.seq) = event.seq
         order by run.seq
         limit 1) is null
   and (select run.seq
          from run
         where run.event_seq = event.seq
           and abs((run.event_seq >> 12) - (run.seq >> 12)) > 1
         limit 1) is null
   and (select ended.seq
          from ended
         where ended.seq >= ((event.seq >> 12) - 1) << 12
           and ended.seq < ((event.seq >> 12) + 2) << 12
           and ended.event_seq = event.seq
         order by ended.seq
         limit 1) is null
   and (select ended.seq
          from ended
         where ended.event_seq = event.seq
           and abs((ended.event_seq >> 12) - (ended.seq >> 12)) > 1
         limit 1) is null
   and (select item.run from item where item.event_seq = event.seq limit 1) is null
   and (select gate.event
          from gate
         where gate.event between event.seq and event.seq
         order by gate.event
         limit 1) is null
 order by seq
 limit $3::bigint
