//! Schedule process of the simulator: starts planned occurrences, also late ones after a downtime,
//! and counts those that are too late as missed. Operators pause and resume the schedules.

use std::collections::VecDeque;

use tidegate_core::{
    command::Command,
    reads::{ReadSet, Scan},
    row::{Row, RowKey, Schedule, Workspace},
    schedule::{Hold, Missed, Occurrence},
    time::Timestamp,
};

use super::{Actor, faults::Trouble, workload::SCHEDULE, world::World};
use crate::workload::Chance;

/// Times of the schedules of a simulated world, and how late occurrences may start.
#[derive(Clone, Debug)]
pub struct Calendar {
    /// The time between two occurrences, in milliseconds.
    pub period_ms: u64,
    /// How late an occurrence may start, in milliseconds.
    pub catch_up_ms: u64,
    /// Maximum number of late occurrences that are started.
    pub most: u64,
    /// Number of processes that start occurrences.
    pub planners: u32,
    /// Start and end of a downtime of all these processes, in microseconds.
    pub downtime: (u64, u64),
    /// How often operators pause or resume a schedule, per thousand turns.
    pub holds: u64,
}

impl Calendar {
    /// Draws the times of schedules.
    pub fn draw(chance: &mut Chance) -> Self {
        let from = chance.between(10_000, 150_000);
        Self {
            period_ms: chance.one(&[10, 30, 70]),
            catch_up_ms: chance.one(&[0, 40, 1000]),
            most: chance.one(&[1, 2, 100]),
            planners: u32::try_from(chance.between(1, 3)).expect("a few"),
            downtime: (from, from + chance.one(&[0, 60_000, 150_000])),
            holds: chance.one(&[0, 50, 200]),
        }
    }

    /// Returns the first occurrence after a time.
    pub fn next(&self, after: Timestamp) -> Timestamp {
        let period = i64::try_from(self.period_ms * 1000).expect("a short time");
        Timestamp::from_micros((after.micros().div_euclid(period) + 1) * period)
    }

    /// Returns the number of occurrences from one time, included, to another, excluded.
    pub fn count(&self, from: Timestamp, before: Timestamp) -> u64 {
        u64::try_from(before.micros() - from.micros()).unwrap_or(0) / (self.period_ms * 1000)
    }

    /// Builds the command for a due occurrence: its start, or the count of missed ones.
    fn due(&self, row: &Schedule, planned_at: Timestamp, now: Timestamp) -> Command {
        let occurrence = |next| Occurrence {
            ws: row.ws.clone(),
            app: row.app.clone(),
            workflow: row.workflow.clone(),
            schedule: row.id.clone(),
            planned_at,
            next: Some(next),
        };
        let since = now.minus_ms(self.catch_up_ms);
        let in_time = self.next(Timestamp::from_micros(since.micros() - 1));
        let latest = self.next(now).minus_ms(self.period_ms * self.most);
        let kept = in_time.max(latest);
        if planned_at >= kept {
            return Command::Occur { occurrence: occurrence(self.next(planned_at)) };
        }
        let count = u32::try_from(self.count(planned_at, kept)).unwrap_or(u32::MAX);
        let missed = Missed { count, at_least: false };
        Command::Miss { occurrence: occurrence(kept), missed }
    }
}

/// One process that starts the occurrences of all schedules.
#[derive(Debug, Default)]
pub struct Planner {
    /// Commands for the rows of the last read.
    orders: VecDeque<Command>,
    /// Whether the faults are over.
    settling: bool,
    /// The time of the store from which on no occurrence is started, once the faults are over.
    until: Option<Timestamp>,
}

impl Planner {
    fn look(&mut self, world: &mut World) {
        let calendar = world.plan.calendar.clone().expect("the world has schedules");
        let reads = ReadSet::default().scan(Scan::Schedules, 100);
        let Some(snapshot) = world.read(reads) else { return };
        let until = self.until.unwrap_or(snapshot.now);
        for row in snapshot.found(&Scan::Schedules) {
            let Row::Schedule(row) = row else { continue };
            if let Some(planned_at) = row.next.filter(|next| *next <= until) {
                self.orders.push_back(calendar.due(row, planned_at, snapshot.now));
            }
        }
        if self.settling {
            return;
        }
        let plan = world.plan.clone();
        for spec in plan.specs.iter().filter(|spec| spec.flow.is_none()) {
            for ws in &plan.workspaces {
                let next = calendar.next(snapshot.now);
                self.orders.extend(missing(world, ws, &spec.name, next));
            }
        }
    }

    /// Pauses or resumes a schedule.
    fn hold(world: &mut World, chance: &mut Chance) {
        let calendar = world.plan.calendar.clone().expect("the world has schedules");
        let plan = world.plan.clone();
        let spec = &plan.specs[chance.index(plan.specs.len())];
        let pause = chance.percent(40);
        // Some operators decide on an old read, from before the last occurrence.
        let looked = world.store_time().minus_ms(chance.one(&[0, 0, 10, 100]));
        let next = calendar.next(looked);
        let hold = if pause { Hold::Pause } else { Hold::Resume(Some(next)) };
        let ws = chance.one(&plan.workspaces).into();
        let (app, workflow) = ("default".to_owned(), spec.full_name());
        let command =
            Command::HoldSchedule { ws, app, workflow, schedule: SCHEDULE.to_owned(), hold };
        let salt = world.salt();
        let _ = world.submit("people", &[(command, salt)]);
    }
}

/// Plans a schedule that has no row yet.
fn missing(world: &World, ws: &str, workflow: &str, next: Timestamp) -> Option<Command> {
    let (app, schedule) = ("default".to_owned(), SCHEDULE.to_owned());
    let (ws, workflow) = (Workspace::from(ws), workflow.to_owned());
    let key = RowKey::Schedule(ws.clone(), app.clone(), workflow.clone(), schedule.clone());
    let is_there = world.judge.state.row(&key).is_some();
    (!is_there).then_some(Command::Plan { ws, app, workflow, schedule, next })
}

impl Actor for Planner {
    fn turn(&mut self, world: &mut World, chance: &mut Chance) -> u64 {
        let calendar = world.plan.calendar.as_ref().expect("the world has schedules");
        let ((from, to), holds) = (calendar.downtime, calendar.holds);
        if self.settling {
            self.until.get_or_insert(world.store_time());
        } else if (from..to).contains(&world.now) {
            self.orders.clear();
            return to - world.now;
        }
        let Some(command) = self.orders.pop_front() else {
            if !self.settling && chance.permille(holds) {
                Self::hold(world, chance);
            }
            self.look(world);
            let idle = self.orders.is_empty();
            return if idle { chance.between(3000, 15_000) } else { chance.between(50, 2000) };
        };
        let salted = (command, world.salt());
        match world.submit("planner", &[salted]) {
            // The rows of the last read may be outdated now, so they are read again.
            Err(Trouble::Crash | Trouble::Unknown) => self.orders.clear(),
            Ok(_) | Err(Trouble::Unavailable) => {}
        }
        chance.between(50, 3000)
    }

    fn is_process(&self) -> bool {
        true
    }

    fn is_settled(&self, world: &World) -> bool {
        let Some(until) = self.until else { return false };
        let due = |row: &Row| matches!(row, Row::Schedule(Schedule { next: Some(next), .. }) if *next <= until);
        !world.judge.state.schedules().any(due)
    }

    fn settle(&mut self) {
        self.settling = true;
    }
}
