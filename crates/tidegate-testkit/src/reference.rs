//! A slow, simple reference implementation of flow control, written from `docs/spec` alone.
//!
//! It has no rows, stores or commits: only a list of runs, a list of open folds, and loops over
//! both. It shares no code with the core, so an error in one of them shows as a difference. Runs
//! are named by their ordinal: the order in which their ids were fixed.

mod adaptive;
mod admit;
mod closing;
mod events;
mod fields;
mod gates;
mod meter;
mod overrides;
mod steps;
mod turns;

use std::collections::BTreeMap;

use serde_json::Value;

use adaptive::{Adapted, Calls};
use events::Listener;
pub use events::Wanted;
use fields::{holds, text};
use meter::Meter;
pub use overrides::{Keys, Override, Target};
pub use steps::{Ask, Entry};
use turns::{FairValue, TurnsAt};

/// A time or a duration, in microseconds.
pub type Time = i128;

/// A run, named by the order in which the ids of runs were fixed.
pub type Ordinal = usize;

/// The scope of a gate, meter or claim: one control of one owner, and one key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The workflow; for a policy, the flow.
    pub owner: String,
    /// The name of the control; several limits have names of their own.
    pub control: String,
    /// The key. All events without a key share `None`.
    pub key: Option<String>,
}

/// The kind of a gate in a run's plan, in the order of spec G9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stop {
    Singleton,
    Handoff,
    Session,
    RunLimit,
    WideRunLimit,
    Turn,
    Narrow,
    Wide,
}

/// The state of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// The window or buffer is still open: the run has an id, but does not exist yet.
    Folding,
    /// Queued at the first gate that the run has not passed.
    Line,
    Ready,
    Driven(u128),
    /// Until a time, or until an event alone.
    Waiting(Option<Time>),
    Ended(&'static str),
}

#[derive(Clone, Debug)]
struct Run {
    workflow: String,
    version: i128,
    /// Number of releases of the workflow at the run's admission.
    release: usize,
    /// The events of the run: one, or those of a batch.
    events: Vec<Value>,
    admitted: Time,
    rank: (Time, u64),
    state: State,
    way: Vec<(Stop, Place)>,
    /// The costs of the run at each gate, by the position of the gate's limits.
    costs: Vec<Vec<i128>>,
    passed: usize,
    /// The values of `fair` at those gates that were fair when the run was admitted.
    values: BTreeMap<Place, FairValue>,
    /// The gate of its step that has a place in a pool, or for which the run is queued, and its
    /// cost.
    step: Option<(Place, i128)>,
    /// The gates that the run had passed after its admission: it may be displaced from the queue of
    /// the next one only.
    stood: usize,
    started: bool,
    /// The calls of the run at adaptive limits.
    calls: Calls,
    /// The engine that has not confirmed yet that it stopped driving the cancelled run.
    stopping: Option<u128>,
    /// The time at which the run expires if it has not started.
    expires: Option<Time>,
    /// The events that cancel the run or enter its inbox.
    listeners: Vec<Listener>,
    /// The names and data of the events that wait to be consumed.
    inbox: Vec<(String, Value)>,
    /// The step that waits for an event.
    awaits: Option<(String, Wanted)>,
    /// The events that ended waits, by step; null if their time was over.
    answers: Vec<(String, Value)>,
    /// Whether another run was cancelled for this one.
    replaced: bool,
    /// Whether the run replaced another one by `restart`, or the holder by `latest`: it is queued
    /// before ordinary requests of the session.
    in_place: bool,
    /// The window that the run comes from, if later requests still join it.
    window: Option<Place>,
}

impl Run {
    fn wakes_at(&self) -> Option<Time> {
        if let State::Waiting(until) = self.state { until } else { None }
    }

    fn is_expired(&self, now: Time) -> bool {
        !self.started && self.expires.is_some_and(|at| at <= now)
    }
}

#[derive(Clone, Debug)]
struct Fold {
    place: Place,
    workflow: String,
    control: &'static str,
    /// The collected events, each with the run that will get it.
    items: Vec<Item>,
    /// Whether the first of the events made a run at once, which is its run (spec L22).
    led: bool,
    /// The gate that would have skipped the run when the fold was due, and the version at that
    /// time.
    blocked: Option<(Place, i128)>,
}

#[derive(Clone, Debug)]
struct Item {
    at: Time,
    data: Value,
    run: Ordinal,
}

/// The verdict on one event for one workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The name of the outcome.
    pub outcome: &'static str,
    /// The run of the event.
    pub run: Option<Ordinal>,
}

/// The reference implementation.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    now: Time,
    releases: BTreeMap<String, Vec<Value>>,
    pools: BTreeMap<String, Pool>,
    /// Workflows in the order of their first release, and the index of the one that had the last
    /// turn.
    turns: (Vec<String>, Option<usize>),
    runs: Vec<Run>,
    /// The events in the order of their delivery, by their position among all of the test.
    delivered: Vec<i128>,
    /// Events that are posted later: their times, names and data (spec L23).
    deferred: Vec<(Time, String, Value)>,
    folds: Vec<Fold>,
    meters: BTreeMap<(Place, usize), Meter>,
    /// The limits of gates that came from data, each with the number of its event (spec L12).
    given: BTreeMap<Place, (usize, i128)>,
    /// The values of adaptive limits that are not at their start.
    adapted: BTreeMap<Place, Adapted>,
    /// Expiry and run of each claim.
    claims: BTreeMap<Place, (Time, Ordinal)>,
    arrivals: u64,
    /// The runs that waited for the place of a step whose run is queued again.
    aside: Vec<Ordinal>,
    /// The turns of values at fair gates with a queue.
    turns_at: BTreeMap<Place, TurnsAt>,
    /// Whether any limit is fair.
    any_fair: bool,
    overrides: Vec<Override>,
    /// The gates that runs have closed, and until when.
    closed: BTreeMap<Place, Time>,
}

/// A pool with a limit on runs.
#[derive(Clone, Debug)]
struct Pool {
    limit: i128,
    /// Whether a run holds it until its end.
    span_run: bool,
    fair: Option<Value>,
}

impl Reference {
    // ------------------------------------------------------------------ operations

    /// Declares a pool with a limit on runs.
    pub fn declare(&mut self, pool: &Value) {
        let name = text(pool, "name").expect("a name");
        let limit = fields::number(&pool["concurrency"], "limit").expect("a limit");
        let span_run = pool["concurrency"]["span"] == "run";
        let fair = pool["concurrency"].get("fair").cloned();
        self.any_fair |= fair.is_some();
        self.pools.insert(name, Pool { limit, span_run, fair });
    }

    /// Releases a definition: a workflow, or an action with its `flow`.
    pub fn release(&mut self, definition: &Value) {
        let name = text(definition, "name").expect("a name");
        let name = text(definition, "flow").map_or(name.clone(), |flow| format!("{flow}/{name}"));
        if !self.turns.0.contains(&name) {
            self.turns.0.push(name.clone());
        }
        self.any_fair |= definition.to_string().contains("\"fair\"");
        self.releases.entry(name).or_default().push(definition.clone());
        self.settle();
    }

    /// Posts an event, or calls an action by its full name.
    pub fn post(&mut self, name: &str, data: &Value) -> Vec<(String, Told)> {
        self.delivered.push(fields::number_of(data));
        self.reach(name, data);
        // The results of the conditions of all triggers for the event; none for one that failed.
        let matches = |known: &String| {
            let triggers = self.current(known).get("triggers").and_then(Value::as_array);
            let of_name = |it: &&Value| text(it, "event").as_deref() == Some(name);
            let triggers = triggers.into_iter().flatten().filter(of_name);
            let holds = triggers.map(|it| it.get("if").map_or(Some(true), |it| holds(it, data)));
            let holds =
                holds.chain((known == name).then_some(Some(true))).max_by_key(|it| match it {
                    Some(false) => 0,
                    None => 1,
                    Some(true) => 2,
                });
            Some((known.clone(), holds?)).filter(|(_, holds)| *holds != Some(false))
        };
        let hit: Vec<_> = self.releases.keys().filter_map(matches).collect();
        hit.into_iter()
            .map(|(workflow, holds)| {
                if holds.is_none() {
                    return (workflow, Told { outcome: "rejected", run: None });
                }
                let told = self.arrive(&workflow, data);
                self.settle();
                let queued = told.run.is_some_and(|run| self.runs[run].state == State::Line);
                let waits = told.outcome == "started" && queued;
                (workflow, Told { outcome: if waits { "queued" } else { told.outcome }, ..told })
            })
            .collect()
    }

    /// Posts an event later. Until then it has no effect (spec L23).
    pub fn defer(&mut self, name: &str, data: &Value, delay: Time) {
        self.deferred.push((self.now + delay, name.to_owned(), data.clone()));
    }

    /// Leases up to `limit` ready runs, the workflows in turn and by rank in each (spec P2).
    /// Returns them by rank.
    pub fn lease(&mut self, engine: u128, limit: usize) -> Vec<Ordinal> {
        let now = self.now;
        let mut ready = self.ready();
        ready.retain(|&run| !self.runs[run].is_expired(now));
        let (mut left, mut taken) = (ready.clone(), Vec::new());
        let (names, last) = &mut self.turns;
        // A workflow without ready runs is skipped. After one round of skipped workflows no ready
        // run is left.
        let mut passed = 0;
        while taken.len() < limit && passed < names.len() {
            let turn = (last.map_or(0, |last| last + 1) + passed) % names.len();
            match left.iter().position(|&run| self.runs[run].workflow == names[turn]) {
                None => passed += 1,
                Some(at) => {
                    taken.push(left.remove(at));
                    (*last, passed) = (Some(turn), 0);
                }
            }
        }
        let leased: Vec<Ordinal> = ready.into_iter().filter(|run| taken.contains(run)).collect();
        let mut driven = Vec::new();
        for run in leased {
            if !self.runs[run].started {
                for (place, costs) in self.turns_of(run) {
                    self.spend(&place, &costs);
                }
            }
            self.runs[run].started = true;
            self.runs[run].state = State::Driven(engine);
            self.begin_again(run);
            self.settle();
            driven.push(run);
        }
        driven
    }

    /// Completes or fails a driven run (spec G7).
    pub fn end(&mut self, run: Ordinal, how: &'static str) {
        self.runs[run].state = State::Ended(how);
        self.count_last_calls(run);
        self.settle();
    }

    /// Puts a driven run to sleep (spec G2).
    pub fn sleep(&mut self, run: Ordinal, time: Time) {
        self.rest(run, Some(self.now + time));
        self.settle();
    }

    /// Cancels a run; returns `false` if it has ended or does not exist yet.
    pub fn cancel(&mut self, run: Ordinal) -> bool {
        let alive = self.alive(run);
        if alive {
            self.cut(run);
            self.settle();
        }
        alive
    }

    /// Confirms that a worker stopped a cancelled run.
    pub fn stopped(&mut self, run: Ordinal) {
        self.runs[run].stopping = None;
        self.count_last_calls(run);
        self.settle();
    }

    /// Ends the lease of an engine: the runs that it drove are queued again, and the cancelled ones
    /// count as stopped.
    pub fn lose(&mut self, engine: u128) {
        for run in 0..self.runs.len() {
            if self.runs[run].stopping == Some(engine) {
                self.stopped(run);
            }
            if self.runs[run].state == State::Driven(engine) {
                self.requeue(run);
                self.settle();
            }
        }
    }

    /// Returns the next time at which a row would be due.
    pub fn next_due(&self) -> Option<Time> {
        let asleep = self.runs.iter().filter_map(Run::wakes_at);
        let folds = self.next_flush();
        let runs = 0..self.runs.len();
        let turns = runs.clone().filter_map(|run| self.turn_due(run));
        let patience = runs.filter_map(|run| Some(self.leaves_at(run)?.0));
        let deferred = self.deferred.iter().map(|(due, ..)| *due);
        let ends = self.override_ends().into_iter().chain(self.closed.values().copied());
        asleep.chain(folds).chain(turns).chain(patience).chain(deferred).chain(ends).min()
    }

    /// Returns the next time at which a fold is due.
    pub fn next_flush(&self) -> Option<Time> {
        let open = self.folds.iter().filter(|fold| fold.blocked.is_none());
        open.map(|fold| self.deadline(fold)).min()
    }

    /// Advances the time without a sweep.
    pub fn pass(&mut self, time: Time) {
        self.now += time;
    }

    /// Processes everything that is due, in the order of due times.
    pub fn sweep(&mut self) {
        self.expire_overrides();
        self.open_gates();
        self.settle();
        loop {
            let folds = self.folds.iter().enumerate().filter(|(_, fold)| fold.blocked.is_none());
            let folds = folds.map(|(n, fold)| (self.deadline(fold), 0, n));
            let runs = self.runs.iter().enumerate();
            let patience = runs.clone().filter_map(|(n, _)| Some((self.leaves_at(n)?.0, 1, n)));
            let asleep = runs.filter_map(|(n, run)| Some((run.wakes_at()?, 2, n)));
            let deferred = self.deferred.iter().enumerate().map(|(n, (due, ..))| (*due, 3, n));
            let dues = folds.chain(patience).chain(asleep).chain(deferred);
            let Some((due, kind, n)) = dues.min() else { return };
            if due > self.now {
                return;
            }
            match kind {
                0 => drop(self.flush(n)),
                1 => self.leave(n),
                2 => self.wake(n, &Value::Null),
                _ => {
                    let (_, name, data) = self.deferred.remove(n);
                    self.post(&name, &data);
                }
            }
            self.settle();
        }
    }

    // ------------------------------------------------------------------ queries

    /// Returns the status of every run, as users see it.
    pub fn states(&self) -> Vec<&'static str> {
        let state = |run: &Run| match run.state {
            State::Folding => "none",
            State::Line | State::Ready => "queued",
            State::Driven(_) => "running",
            State::Waiting(_) => "waiting",
            State::Ended(how) => how,
        };
        self.runs.iter().map(state).collect()
    }

    /// Returns the events of every run, also of those that do not exist yet.
    pub fn carried(&self) -> Vec<Vec<Value>> {
        self.runs.iter().map(|run| run.events.clone()).collect()
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the rank of a run.
    pub fn rank(&self, run: Ordinal) -> (Time, u64) {
        self.runs[run].rank
    }

    /// Returns the version of every run.
    pub fn versions(&self) -> Vec<i128> {
        self.runs.iter().map(|run| run.version).collect()
    }

    /// Returns the driven runs, and the cancelled ones whose engine has not stopped yet.
    pub fn driven(&self) -> (Vec<Ordinal>, Vec<Ordinal>) {
        let driven = |run: &Run| matches!(run.state, State::Driven(_));
        (self.by_rank(driven), self.by_rank(|run| run.stopping.is_some()))
    }

    /// Returns the ready runs, best rank first.
    pub fn ready(&self) -> Vec<Ordinal> {
        self.by_rank(|run| run.state == State::Ready)
    }

    /// Returns the holders of each gate.
    pub fn holders(&self) -> BTreeMap<Place, Vec<Ordinal>> {
        let mut holders = BTreeMap::<Place, Vec<Ordinal>>::new();
        for run in 0..self.runs.len() {
            let way = self.runs[run].way.iter().filter(|(stop, _)| *stop != Stop::Turn);
            for (_, place) in way.filter(|(_, place)| self.holds(run, place)) {
                holders.entry(place.clone()).or_default().push(run);
            }
        }
        holders
    }

    /// Returns the queue of each gate or throttle, in order.
    pub fn lines(&self) -> BTreeMap<Place, Vec<Ordinal>> {
        let mut lines = BTreeMap::<Place, Vec<Ordinal>>::new();
        let waits = |run: &Run| run.state == State::Line && run.passed < run.way.len();
        let held = |run: &Ordinal| !self.overrides.is_empty() && self.is_held_back(*run);
        for run in self.by_rank(waits).into_iter().filter(|run| !held(run)) {
            let (_, place) = &self.runs[run].way[self.runs[run].passed];
            lines.entry(place.clone()).or_default().push(run);
        }
        for (place, line) in &mut lines {
            line.sort_by_key(|&run| {
                (self.fair_order(run, place).unwrap_or_default(), self.order(run, place))
            });
        }
        lines
    }

    // ------------------------------------------------------------------ helpers

    /// Returns the released definition of a workflow.
    fn current(&self, workflow: &str) -> &Value {
        self.releases[workflow].last().expect("never empty")
    }

    /// Returns whether a run's release is older than another's (spec versions).
    fn is_older(&self, run: Ordinal, than: Ordinal) -> bool {
        let released = |run: Ordinal| {
            let releases = &self.releases[&self.runs[run].workflow];
            releases.iter().rposition(|def| fields::version(def) == self.runs[run].version)
        };
        self.runs[run].workflow == self.runs[than].workflow && released(run) < released(than)
    }

    /// Whether the window or buffer of a run is still open, so that the run does not exist yet.
    pub fn is_folding(&self, run: Ordinal) -> bool {
        self.runs[run].state == State::Folding
    }

    fn alive(&self, run: Ordinal) -> bool {
        !matches!(self.runs[run].state, State::Folding | State::Ended(_))
    }

    fn by_rank(&self, wanted: impl Fn(&Run) -> bool) -> Vec<Ordinal> {
        let mut runs: Vec<Ordinal> =
            (0..self.runs.len()).filter(|&run| wanted(&self.runs[run])).collect();
        runs.sort_by_key(|&run| self.runs[run].rank);
        runs
    }
}
