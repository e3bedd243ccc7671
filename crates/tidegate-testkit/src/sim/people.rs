//! Actors outside of the engines: clients that send the planned traffic, and operators that cancel,
//! pause, resume and release.

use std::collections::VecDeque;

use serde_json::json;
use tidegate_core::{
    audit::Author,
    command::Command,
    definition::Definition,
    event::NewEvent,
    id::EventId,
    overrides::{Fields, Limited, OverrideChange, Target},
    pool::{Pool, PoolCommand},
    request::Request,
    row::{Event, Phase, Row, RowKey, Run, Schedule, WaitOn, Workspace},
    run::record::Until,
    schedule::Occurrence,
    time::Timestamp,
};
use tidegate_store::SeededCommand;

use super::{
    Actor,
    faults::Trouble,
    script::When,
    state::State,
    task::{BY_NAME, SIGNAL},
    workload::{Delivery, MESSAGE, Plan, SCHEDULE, VERSIONS},
    world::World,
};
use crate::{
    workload::Chance,
    world::{event, payload, request},
};

/// Sends the planned traffic. A request without an answer is sent again if repeating it is safe.
#[derive(Debug)]
pub struct Client {
    left: VecDeque<(u64, usize, Delivery)>,
    again: VecDeque<(u64, SeededCommand, bool)>,
}

impl Client {
    /// Creates the client of a plan.
    pub fn new(plan: &Plan) -> Self {
        Self { left: plan.traffic.clone().into(), again: VecDeque::new() }
    }

    fn send(&mut self, world: &mut World, chance: &mut Chance, command: SeededCommand, safe: bool) {
        match world.submit("client", std::slice::from_ref(&command)) {
            Err(Trouble::Unavailable) => {}
            Err(Trouble::Unknown | Trouble::Crash) if safe => {}
            Ok(_) | Err(Trouble::Unknown | Trouble::Crash) => return,
        }
        self.again.push_back((world.now + chance.between(500, 20_000), command, safe));
    }
}

impl Actor for Client {
    fn turn(&mut self, world: &mut World, chance: &mut Chance) -> u64 {
        if let Some(at) = self.again.iter().position(|(at, ..)| *at <= world.now) {
            let (_, command, safe) = self.again.remove(at).expect("it was just found");
            self.send(world, chance, command, safe);
        } else if self.left.front().is_some_and(|(at, ..)| at * 1000 <= world.now) {
            let (_, ws, delivery) = self.left.pop_front().expect("it was just found");
            let safe = matches!(&delivery, Delivery::Post(events, _)
                if events.iter().all(|(_, _, dedupe)| dedupe.is_some()));
            let command = command(world, ws, delivery);
            let salted = (command, world.salt());
            self.send(world, chance, salted, safe);
        }
        let again = self.again.iter().map(|(at, ..)| *at);
        let next = again.chain(self.left.front().map(|(at, ..)| at * 1000)).min();
        next.map_or(u64::MAX, |next| next.saturating_sub(world.now).max(chance.between(0, 300)))
    }

    fn is_done(&self) -> bool {
        self.left.is_empty() && self.again.is_empty()
    }
}

fn command(world: &World, ws: usize, delivery: Delivery) -> Command {
    let ws: Workspace = world.plan.workspaces[ws].into();
    match delivery {
        Delivery::Post(events, delay) => {
            let deliver = delay.map(Until::In);
            let events = events.into_iter().map(|(name, data, dedupe_id)| NewEvent {
                dedupe_id,
                deliver,
                ..event(&name, &data)
            });
            Command::Post { ws, events: events.collect() }
        }
        Delivery::Call { action, session, input, delay } => {
            let request = request("f", &action, session.as_deref(), None, &input);
            let request = Request { deliver: delay.map(Until::In), ..request };
            Command::Dispatch { ws, request }
        }
        Delivery::Say { then, session, input } => {
            let call = |action| Box::new(request("f", action, session.as_deref(), None, &input));
            Command::DispatchThen { ws, first: call(MESSAGE), then: call(&then) }
        }
        Delivery::Occur { workflow } => occur(world, ws, workflow),
    }
}

/// Starts the planned occurrence of a workflow's schedule, or plans one.
fn occur(world: &World, ws: Workspace, workflow: String) -> Command {
    let (app, schedule) = ("default".to_owned(), SCHEDULE.to_owned());
    let key = RowKey::Schedule(ws.clone(), app.clone(), workflow.clone(), schedule.clone());
    match world.judge.state.row(&key) {
        Some(Row::Schedule(Schedule { next: Some(planned_at), .. })) => {
            let after = |at: Timestamp| match &world.plan.calendar {
                Some(calendar) => calendar.next(at),
                None => at.plus_ms(1),
            };
            let (planned_at, next) = (*planned_at, Some(after(*planned_at)));
            let occurrence = Occurrence { ws, app, workflow, schedule, planned_at, next };
            Command::Occur { occurrence }
        }
        _ => {
            let now = world.store_time();
            let next = world.plan.calendar.as_ref().map_or(now, |calendar| calendar.next(now));
            Command::Plan { ws, app, workflow, schedule, next }
        }
    }
}

/// An operator: cancels, pauses, resumes, signals and releases at random. At the end it sends the
/// events and signals that runs wait for.
#[derive(Debug, Default)]
pub struct Meddler {
    /// Whether the operator only sends events and signals that runs wait for.
    pub helps: bool,
}

impl Meddler {
    fn act(world: &mut World, command: Command) {
        let salt = world.salt();
        // The answer is ignored: operators read the state of the run again.
        let _ = world.submit("people", &[(command, salt)]);
    }

    fn meddle(world: &mut World, chance: &mut Chance) {
        let runs: Vec<&Run> = world.judge.state.runs().collect();
        if runs.is_empty() {
            return;
        }
        let run = runs[chance.index(runs.len())];
        let (ws, id) = (run.ws.clone(), run.id);
        let command = match chance.below(12) {
            10 => override_of(
                run,
                set(starts_of(run), Fields { paused: Some(true), ..Fields::default() }),
            ),
            11 => override_of(run, OverrideChange::Undo(starts_of(run))),
            0..3 => Command::Cancel { ws, run: id, reason: "by hand".to_owned() },
            3..5 => Command::Pause { ws, run: id },
            5..7 => Command::Resume { ws, run: id },
            _ => signal_by_name(run).unwrap_or_else(|| signal(run)),
        };
        Self::act(world, command);
    }

    /// Gives a pool another limit, pauses it, closes it for some time, or undoes that.
    fn change_pool(world: &mut World, chance: &mut Chance) {
        let Plan { pools, workspaces, .. } = &*world.plan.clone();
        let pool = &pools[chance.index(pools.len())];
        let ws: Workspace = workspaces[chance.index(workspaces.len())].into();
        let limit = chance.between(1, 5);
        let control = chance.percent(50).then_some(Limited::Concurrency);
        let target = Target { pool: Some(pool.name.to_owned()), ..Target::default() };
        let overriding = match chance.below(6) {
            0 => set(target, Fields { paused: Some(true), ..Fields::default() }),
            1 => {
                let until = Some(world.store_time().plus_ms(chance.one(&[1, 50, 500])));
                let fields = Fields { closed_until: until, ..Fields::default() };
                set(Target { control, ..target }, fields)
            }
            2 => OverrideChange::Undo(Target { control, ..target }),
            3 => OverrideChange::Remove(Target { control, ..target }),
            _ => return Self::act(world, put_pool(ws, &pool.declaration(limit))),
        };
        Self::act(world, override_in(ws, overriding));
    }

    fn release(world: &mut World, chance: &mut Chance) {
        let plan = world.plan.clone();
        if chance.percent(20)
            && let Some((ws, event)) = deferred(&world.judge.state)
        {
            let reason = "by hand".to_owned();
            return Self::act(world, Command::CancelDelivery { ws, event, reason });
        }
        if !plan.pools.is_empty() && chance.percent(40) {
            Self::change_pool(world, chance);
            return;
        }
        let spec = &plan.specs[chance.index(plan.specs.len())];
        let ws: Workspace = plan.workspaces[chance.index(plan.workspaces.len())].into();
        let version = chance.one(&[1, 2, 3]).min(VERSIONS);
        let (app, name) = ("default".to_owned(), spec.full_name());
        let known = world
            .judge
            .state
            .defs()
            .any(|def| def.ws == ws && def.name == name && def.version == version);
        let command = if known {
            Command::Release { ws, app, name, version }
        } else {
            register(ws, spec.definition(version))
        };
        Self::act(world, command);
    }

    /// Sends events and signals that live runs wait for.
    fn help(world: &mut World) {
        for command in missing(&world.judge.state) {
            Self::act(world, command);
        }
    }
}

/// Returns the first event that waits for its delivery.
fn deferred(state: &State) -> Option<(Workspace, EventId)> {
    let waits = |row: &Row| match row {
        Row::Event(event @ Event { id, ws, .. }) if event.is_deferred() => Some((ws.clone(), *id)),
        _ => None,
    };
    state.rows().find_map(waits)
}

/// Returns the target of a pause of the run's workflow.
fn starts_of(run: &Run) -> Target {
    let (app, workflow) = (run.app.clone(), run.workflow.clone());
    Target { app, workflow, ..Target::default() }
}

fn set(target: Target, fields: Fields) -> OverrideChange {
    OverrideChange::Set { target, fields, reason: None, expires_at: None }
}

fn override_of(run: &Run, change: OverrideChange) -> Command {
    override_in(run.ws.clone(), change)
}

fn override_in(ws: Workspace, change: OverrideChange) -> Command {
    let by = Author::default();
    Command::Override { ws, change: Box::new(change), by, if_epoch: None }
}

/// Maximum number of commands that [`missing`] returns.
const HELP: usize = 8;

/// Returns commands with the events and signals that live runs wait for.
pub fn missing(state: &State) -> Vec<Command> {
    let mut commands = Vec::new();
    for (ws, name) in state.paused_pools() {
        let target = Target { pool: Some(name), ..Target::default() };
        commands.push(override_in(ws, OverrideChange::Remove(target)));
    }
    for run in state.runs() {
        let (ws, id) = (run.ws.clone(), run.id);
        if !run.started && state.is_paused(run) {
            commands.push(override_of(run, OverrideChange::Remove(starts_of(run))));
        }
        if run.phase == Phase::Paused || run.pausing {
            commands.push(Command::Resume { ws: ws.clone(), run: id });
        }
        for wait in &run.waits {
            match &wait.on {
                WaitOn::Signal { .. } if wait.until.is_none() => commands.push(signal(run)),
                WaitOn::Named { .. } if wait.until.is_none() => {
                    commands.extend(signal_by_name(run));
                }
                WaitOn::Event { name, matches, filter, .. } if wait.until.is_none() => {
                    let mut data = json!({ "d": 9 });
                    for (path, value) in matches {
                        data[path.as_str()] = json!(value_of(value));
                    }
                    // The condition of any wait holds.
                    for when in When::ALL.into_iter().filter(|_| filter.is_some()) {
                        data[when.field()] = json!(when.constant());
                    }
                    let events = vec![event(name, &data)];
                    commands.push(Command::Post { ws: ws.clone(), events });
                }
                _ => {}
            }
        }
    }
    commands.truncate(HELP);
    commands
}

/// Decodes a value that a wait requires.
fn value_of(encoded: &[u8]) -> u32 {
    let fits = |n: &u32| {
        let data = payload(&json!({ "k": n }));
        tidegate_core::run::wait::encoded(&data, "k").as_deref() == Some(encoded)
    };
    (0..8).find(fits).expect("values are small numbers")
}

/// Returns the command that signals a run by the name that it waits for, if it does.
fn signal_by_name(run: &Run) -> Option<Command> {
    let names = run.waits.iter().filter_map(|wait| match &wait.on {
        WaitOn::Named { name } => Some(name.clone()),
        _ => None,
    });
    let (ws, data) = (run.ws.clone(), payload(&json!(BY_NAME)));
    names.into_iter().next().map(|name| Command::SignalByName { ws, name, data })
}

fn signal(run: &Run) -> Command {
    let data = payload(&json!("signal"));
    Command::Signal { ws: run.ws.clone(), run: run.id, name: SIGNAL.to_owned(), data }
}

/// Builds the command that creates or changes a pool.
pub fn put_pool(ws: Workspace, declaration: &serde_json::Value) -> Command {
    let pool = Pool::parse(declaration).expect("the plan has valid pools").value;
    Command::Pool { ws, command: PoolCommand::Put(Box::new(pool)) }
}

/// Builds the command that registers a definition.
pub fn register(ws: Workspace, definition: serde_json::Value) -> Command {
    let workflow = Definition::parse(&definition).expect("the plan has valid definitions").value;
    Command::Register { ws, workflow: Box::new(workflow), dev: false }
}

impl Actor for Meddler {
    fn turn(&mut self, world: &mut World, chance: &mut Chance) -> u64 {
        if self.helps {
            Self::help(world);
            return 5000;
        }
        if chance.permille(world.plan.meddling) {
            Self::meddle(world, chance);
        }
        if chance.permille(world.plan.releases) {
            Self::release(world, chance);
        }
        if world.strikes(world.plan.mix.clock) {
            let ms = i64::from(world.faults.one(&[1, 40, 5000]));
            let back = world.faults.percent(50);
            world.step_clock(if back { -ms * 1000 } else { ms * 1000 });
        }
        chance.between(500, 8000)
    }

    fn settle(&mut self) {
        self.helps = true;
    }
}
