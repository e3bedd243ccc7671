-- Steps get an order, and ended runs the number of their definition, so that lists find them by
-- workflow and state, newest first.

alter table step add column seq integer not null default 0;

alter table ended add column lane integer not null default 0;
update ended
   set lane = coalesce((select def.lane
                          from def
                         where def.ws = ended.ws
                           and def.app = ended.app
                           and def.name = ended.workflow
                           and def.version = ended.version), 0);
create index ended_lane on ended (lane, state, seq);
