//! The workload of a seed: definitions with their controls, and the traffic.
//!
//! Each seed draws a few controls with extreme values, not all controls with usual ones (swarm
//! testing).

use serde_json::{Value, json};
use tidegate_core::flow::close::GateToClose;

use super::{
    cleaner::RetentionPlan,
    controls::{Controls, Fair, Range},
    planner::Calendar,
    schedule::Concern,
    script::{Op, Script},
    streams::StreamPlan,
};
use crate::workload::Chance;

/// Maximum number of versions of a workflow.
pub const VERSIONS: u32 = 3;

/// The action that stores messages, in plans that have it. It has no controls.
pub const MESSAGE: &str = "say";

/// The schedule of every workflow that can have one.
pub const SCHEDULE: &str = "@daily";

/// Overlap policies of schedules; each version of a workflow has another one.
const OVERLAPS: [&str; 4] = ["skip", "queue", "restart", "allow"];

/// Lease times of the engines of one store, as multiples of the shortest.
const LEASES: [&[u64]; 4] = [&[1], &[1, 10], &[1, 3, 20], &[5, 1]];

/// A workflow or an action, with all the versions that may be released.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The name of the workflow or action.
    pub name: String,
    /// The flow of an action; `None` for a workflow.
    pub flow: Option<&'static str>,
    /// Controls and script of every version, from 1.
    pub versions: Vec<(Controls, Script)>,
    /// Whether the event `all` triggers the workflow, too.
    pub on_all: bool,
}

impl Spec {
    /// Returns the name of the workflow in the rows of runs.
    pub fn full_name(&self) -> String {
        self.flow.map_or(self.name.clone(), |flow| format!("{flow}/{}", self.name))
    }

    /// Returns the controls and the script of a version.
    pub fn version(&self, version: u32) -> &(Controls, Script) {
        &self.versions[version as usize - 1]
    }

    /// Returns the definition of a version as JSON.
    pub fn definition(&self, version: u32) -> Value {
        let mut value = self.version(version).0.to_value();
        value["name"] = json!(self.name);
        value["version"] = json!(version);
        match self.flow {
            Some(flow) => value["flow"] = json!(flow),
            None => {
                let mut triggers = vec![json!(self.name)];
                triggers.extend(self.on_all.then(|| json!("all")));
                if self.is_scheduled(version) {
                    let last = self.name.bytes().next_back().unwrap_or_default();
                    let word = OVERLAPS[(u32::from(last) + version) as usize % OVERLAPS.len()];
                    triggers.push(json!({ "cron": SCHEDULE, "onOverlap": word }));
                }
                value["triggers"] = json!(triggers);
            }
        }
        value
    }

    /// Whether a version has a schedule. A version with a keyed handoff has none, because the
    /// payload of an occurrence has no key.
    pub fn is_scheduled(&self, version: u32) -> bool {
        let keyed = matches!(self.version(version).0.handoff, Some((Some(_), _)));
        self.flow.is_none() && !keyed
    }

    /// Whether an event of this name triggers the workflow.
    pub fn triggered(&self, event: &str) -> bool {
        self.flow.is_none() && (event == self.name || (self.on_all && event == "all"))
    }
}

/// A pool of every workspace of a plan.
#[derive(Clone, Debug)]
pub struct SimPool {
    /// The name.
    pub name: &'static str,
    /// The limit that it has at first.
    pub limit: u64,
    /// Whether a hold lasts until the run ends, or only while it is driven.
    pub run: bool,
    /// Turns in its queue.
    pub fair: Option<Fair>,
    /// The range of its limit, if it is adaptive.
    pub adaptive: Option<Range>,
}

impl SimPool {
    /// Returns the declaration with a limit.
    pub fn declaration(&self, limit: u64) -> Value {
        let span = if self.run { "run" } else { "executing" };
        let mut concurrency = json!({ "limit": limit, "span": span });
        if let Some(fair) = self.fair {
            concurrency["fair"] = fair.to_value();
        }
        if let Some(range) = self.adaptive {
            concurrency["adaptive"] = range.to_value();
        }
        json!({ "name": self.name, "concurrency": concurrency })
    }
}

/// A request of a client to the store.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// Events in one request: name, data, `dedupeId`, and the delay of their delivery.
    Post(Vec<(String, Value, Option<String>)>, Option<u64>),
    /// A call of an action.
    Call {
        /// The action.
        action: String,
        /// The session.
        session: Option<String>,
        /// The delay of its delivery.
        delay: Option<u64>,
        /// The input.
        input: Value,
    },
    /// A call of [`MESSAGE`] together with an action that replies, with the same session and input.
    Say {
        /// The action that replies.
        then: String,
        /// The session.
        session: Option<String>,
        /// The input.
        input: Value,
    },
    /// An occurrence of a schedule.
    Occur {
        /// The workflow.
        workflow: String,
    },
}

/// How often each fault happens, per thousand.
#[derive(Clone, Debug, Default)]
pub struct Mix {
    /// A transaction or a read cannot reach the store.
    pub unavailable: u64,
    /// A commit is not made, and its sender gets no answer.
    pub lost_before: u64,
    /// A commit is made, but its sender gets no answer.
    pub lost_after: u64,
    /// The process dies before or after a commit.
    pub crash: u64,
    /// A process dies soon after its start.
    pub crash_loop: u64,
    /// The process is paused for up to three leases.
    pub pause: u64,
    /// A heartbeat is lost.
    pub lost_beat: u64,
    /// The store's clock steps.
    pub clock: u64,
    /// Idle engines get no wake for new work.
    pub lost_wake: u64,
}

/// Everything that a seed decides before the first turn.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The workspaces. All of them have the same definitions and keys.
    pub workspaces: Vec<&'static str>,
    /// The definitions of each workspace.
    pub specs: Vec<Spec>,
    /// The pools of each workspace; empty in most plans.
    pub pools: Vec<SimPool>,
    /// Number of engine processes.
    pub engines: usize,
    /// Maximum number of runs that an engine drives at once.
    pub workers: usize,
    /// Maximum number of commands in one transaction.
    pub together: usize,
    /// The shortest lease of an engine, in milliseconds.
    pub ttl_ms: u64,
    /// Lease times of the engine processes in the order of their start, as multiples of the
    /// shortest. Engines of one store may have different lease times, and a restart may change
    /// them.
    pub leases: Vec<u64>,
    /// Number of consecutive deaths of engines after which a run is paused; 0 for never.
    pub max_deaths: u32,
    /// The traffic: time in milliseconds, index of the workspace, request.
    pub traffic: Vec<(u64, usize, Delivery)>,
    /// How often operators act on runs, per thousand turns.
    pub meddling: u64,
    /// How often an operator releases a version, per thousand turns.
    pub releases: u64,
    /// How often each fault happens.
    pub mix: Mix,
    /// Streams and reactions; `None` in plans without them.
    pub streams: Option<StreamPlan>,
    /// Times of schedules; `None` in plans without a process that starts them.
    pub calendar: Option<Calendar>,
    /// Retention; `None` in plans without it.
    pub retention: Option<RetentionPlan>,
}

impl Plan {
    /// Draws the plan of a seed.
    pub fn of(seed: u64) -> Self {
        let mut chance = Chance::stream(seed, Concern::Workload);
        let chance = &mut chance;
        let workspaces = if chance.percent(25) { vec!["left", "right"] } else { vec!["left"] };
        let keys = chance.one(&[1, 1, 2, 3]);
        let count = chance.one(&[1, 1, 2, 3]);
        let mut specs: Vec<Spec> = (0..count).map(|n| spec(n, count, chance)).collect();
        let mut traffic = traffic(&specs, &workspaces, keys, chance);
        pair(&mut specs, &mut traffic, &mut Chance::stream(seed, Concern::Pairs));
        let mut pools = pools(&mut specs, &mut Chance::stream(seed, Concern::Pools));
        turns(&mut specs, &mut pools, &mut Chance::stream(seed, Concern::Fair));
        adapting(&mut specs, &mut pools, &mut Chance::stream(seed, Concern::Adaptive));
        let mut listeners = Chance::stream(seed, Concern::Listeners);
        if listeners.percent(50) {
            for spec in &mut specs {
                let action = spec.flow.is_some();
                spec.versions.iter_mut().for_each(|it| it.0.listen(action, &mut listeners));
            }
        }
        let mut waits = Chance::stream(seed, Concern::Waits);
        if waits.percent(50) {
            for spec in &mut specs {
                let action = spec.flow.is_some();
                for (controls, script) in &mut spec.versions {
                    controls.draw_condition(action, &mut waits);
                    script.draw_waits(&mut waits);
                }
            }
        }
        let mut closings = Chance::stream(seed, Concern::Closings);
        if closings.percent(30) {
            let versions = specs.iter_mut().flat_map(|spec| &mut spec.versions);
            versions.for_each(|it| it.1.closes = closing(&it.0, &mut closings));
        }
        let mut faults = Chance::stream(seed, Concern::Mix);
        let mut settings = Chance::stream(seed, Concern::Settings);
        let mut side = Chance::stream(seed, Concern::Side);
        let side = &mut side;
        Self {
            workspaces,
            pools,
            engines: chance.index(5) + 2,
            workers: chance.one(&[1, 2, 4, 8]),
            together: chance.one(&[1, 1, 2, 4]),
            ttl_ms: chance.one(&[30, 60, 200]),
            leases: settings.one(&LEASES).to_vec(),
            max_deaths: settings.one(&[10, 1, 2, 3, 0]),
            traffic,
            meddling: chance.one(&[0, 0, 100, 400]),
            releases: chance.one(&[0, 0, 50, 150]),
            mix: mix(&mut faults),
            streams: side.percent(30).then(|| StreamPlan::draw(side)),
            calendar: side.percent(15).then(|| Calendar::draw(side)),
            retention: side.percent(25).then(|| RetentionPlan::draw(side)),
            specs,
        }
    }

    /// Returns the lease of the engine process with this number, in milliseconds.
    pub fn lease_ms(&self, engine: usize) -> u32 {
        let times = self.leases[engine % self.leases.len()];
        u32::try_from(self.ttl_ms * times).expect("a few seconds")
    }

    /// Returns a definition by its name in the rows of runs.
    pub fn spec(&self, full_name: &str) -> Option<&Spec> {
        self.specs.iter().find(|spec| spec.full_name() == full_name)
    }
}

/// Draws the pools of a plan, and their uses by all versions of its workflows.
fn pools(specs: &mut [Spec], chance: &mut Chance) -> Vec<SimPool> {
    if !chance.percent(30) {
        return Vec::new();
    }
    let names = ["p0", "p1"];
    // A parent with a hold until its end, and a child that waits for a run behind it, could wait for
    // each other without end: only the ancestors of a child are examined (spec G8).
    let alone = specs.len() == 1;
    for spec in &mut *specs {
        let action = spec.flow.is_some();
        let rest = chance.percent(60);
        for (controls, _) in &mut spec.versions {
            if rest || chance.percent(50) {
                controls.draw_pools(&names, action, chance);
            }
        }
    }
    let pool = |name| {
        let (limit, run) = (chance.one(&[1, 2, 3, 5]), alone && chance.percent(40));
        SimPool { name, limit, run, fair: None, adaptive: None }
    };
    let pools: Vec<SimPool> = names.map(pool).into();
    let executing = pools.iter().filter(|pool| !pool.run).map(|pool| pool.name);
    let executing: Vec<&'static str> = executing.collect();
    if !executing.is_empty() && chance.percent(70) {
        for (_, script) in specs.iter_mut().flat_map(|spec| &mut spec.versions) {
            script.draw_pools(&executing, chance);
        }
    }
    pools
}

/// Draws a gate that the runs of a version have, and for how long they close it.
fn closing(controls: &Controls, chance: &mut Chance) -> Option<(GateToClose, u64)> {
    let mut gates: Vec<GateToClose> =
        controls.pools.iter().map(|it| GateToClose::Pool(it.pool.to_owned())).collect();
    gates.extend(controls.throttle.as_ref().map(|_| GateToClose::Throttle));
    gates.extend((!controls.limits.is_empty()).then_some(GateToClose::Concurrency));
    if gates.is_empty() {
        return None;
    }
    let gate = gates.swap_remove(chance.index(gates.len()));
    Some((gate, chance.one(&[1, 40, 400, LONGEST_CLOSING + 1000])))
}

/// Longest time for which a run closes a gate, in milliseconds.
pub const LONGEST_CLOSING: u64 = 1000;

/// Draws turns at limits, throttles and pools.
fn turns(specs: &mut [Spec], pools: &mut [SimPool], chance: &mut Chance) {
    if !chance.percent(50) {
        return;
    }
    for spec in specs.iter_mut() {
        let action = spec.flow.is_some();
        for (controls, _) in &mut spec.versions {
            if chance.percent(70) {
                controls.draw_fair(action, chance);
            }
        }
    }
    // A batch, or a window that keeps all events, may have another key than the pool's turns.
    let is_of_many = |it: &Controls| {
        it.batch.is_some() || it.debounce.is_some_and(|window| window.keep == "all")
    };
    if specs.iter().any(|spec| spec.versions.iter().any(|(it, _)| is_of_many(it))) {
        return;
    }
    let by = chance.one(&["k", "j"]);
    for pool in pools {
        let fair = Fair { by, zero: chance.one(&[1, 2]), others: 1 };
        pool.fair = chance.percent(50).then_some(fair);
    }
}

/// Draws limits and pools that follow the outcomes of calls, and scripts whose failures are
/// overloads.
fn adapting(specs: &mut [Spec], pools: &mut [SimPool], chance: &mut Chance) {
    if !chance.percent(50) {
        return;
    }
    for (controls, script) in specs.iter_mut().flat_map(|spec| &mut spec.versions) {
        controls.draw_adaptive(chance);
        script.overloads = chance.percent(70);
    }
    for pool in pools {
        pool.adaptive = chance.percent(60).then(|| Range::draw(5, chance));
    }
}

/// Draws the faults. Each seed has only some kinds of faults, so that frequent kinds do not hide
/// rare ones.
fn mix(chance: &mut Chance) -> Mix {
    let mut rate = |on: u64, rates: &[u64]| if chance.percent(on) { chance.one(rates) } else { 0 };
    Mix {
        unavailable: rate(40, &[10, 60, 200]),
        lost_before: rate(40, &[10, 60]),
        lost_after: rate(50, &[10, 60, 150]),
        crash: rate(40, &[3, 15]),
        pause: rate(50, &[5, 20, 60]),
        lost_beat: rate(30, &[100, 500]),
        clock: rate(30, &[2, 10]),
        lost_wake: rate(30, &[100, 1000]),
        crash_loop: rate(25, &[300, 900]),
    }
}

fn spec(n: usize, count: usize, chance: &mut Chance) -> Spec {
    let action = chance.percent(25);
    let first = Controls::draw(action, chance);
    let script = Script::draw(n, count, chance);
    let mut versions = vec![(first, script)];
    for _ in 1..VERSIONS {
        let (controls, script) = versions.last().expect("the first").clone();
        let script = if chance.percent(30) { Script::draw(n, count, chance) } else { script };
        versions.push((controls.changed(action, chance), script));
    }
    let on_all = chance.percent(40);
    Spec { name: format!("w{n}"), flow: action.then_some("f"), versions, on_all }
}

/// Draws the requests: bursts on few keys; some are repeated, delayed and out of order.
fn traffic(
    specs: &[Spec],
    workspaces: &[&str],
    keys: u64,
    chance: &mut Chance,
) -> Vec<(u64, usize, Delivery)> {
    let mut all = Vec::new();
    let mut at = 5;
    let gap = chance.one(&[1, 10, 60]);
    for n in 0..chance.between(4, 24) {
        at += chance.below(gap + 1);
        let ws = chance.index(workspaces.len());
        let spec = &specs[chance.index(specs.len())];
        let delivery = delivery(n, spec, keys, chance);
        let repeated = matches!(&delivery, Delivery::Post(events, _) if events[0].2.is_some());
        for _ in 0..if repeated { chance.below(3) } else { 0 } {
            all.push((at + chance.below(100), ws, delivery.clone()));
        }
        all.push((at, ws, delivery));
    }
    all.sort_by_key(|(at, ..)| *at);
    all
}

/// Turns some calls into messages with replies, in some of the plans with actions.
fn pair(specs: &mut Vec<Spec>, traffic: &mut [(u64, usize, Delivery)], chance: &mut Chance) {
    let calls = |it: &(u64, usize, Delivery)| matches!(it.2, Delivery::Call { .. });
    if !traffic.iter().any(calls) || !chance.percent(60) {
        return;
    }
    for (_, _, delivery) in traffic {
        if let Delivery::Call { action, session, input, delay: None } = delivery.clone()
            && chance.percent(70)
        {
            *delivery = Delivery::Say { then: action, session, input };
        }
    }
    let script = Script::draw(0, 1, chance);
    let versions = vec![(Controls::default(), script); VERSIONS as usize];
    specs.push(Spec { name: MESSAGE.to_owned(), flow: Some("f"), versions, on_all: false });
}

fn delivery(n: u64, spec: &Spec, keys: u64, chance: &mut Chance) -> Delivery {
    if spec.flow.is_some() {
        let session = (!chance.percent(10)).then(|| format!("s{}", chance.below(keys)));
        let input = data(n, keys, chance);
        let delay = delay(chance);
        return Delivery::Call { action: spec.name.clone(), session, input, delay };
    }
    if chance.percent(8) {
        return Delivery::Occur { workflow: spec.name.clone() };
    }
    let events = (0..chance.one(&[1, 1, 1, 3])).map(|m| {
        let name = match chance.below(10) {
            0 => "all".to_owned(),
            1 => chance.one(&Op::TOPICS).to_owned(),
            _ => spec.name.clone(),
        };
        let dedupe = chance.percent(30).then(|| format!("d{n}.{m}"));
        (name, data(n * 10 + m, keys, chance), dedupe)
    });
    let events = events.collect();
    Delivery::Post(events, delay(chance))
}

/// Draws the delay of a delivery, in milliseconds.
fn delay(chance: &mut Chance) -> Option<u64> {
    chance.percent(10).then(|| chance.one(&[1, 20, 300, 2000]))
}

/// Draws the data of an event: a key that may be missing, a second key, the number of the event,
/// its depth of calls, and its cost.
fn data(n: u64, keys: u64, chance: &mut Chance) -> Value {
    let mut data = json!({ "n": n, "d": 0, "c": n % 3 + 1, "j": chance.below(2) });
    if !chance.percent(8) {
        data["k"] = json!(chance.below(keys));
    }
    data
}
