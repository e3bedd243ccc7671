//! A slow, obvious reference of flow control, written from `docs/spec` alone.
//!
//! It knows neither rows nor stores nor commits: a list of runs, a list of open folds, and loops
//! over both. It shares no code with the core, so that the two can only agree by meaning the same.
//! Runs are named by their ordinal: the order in which their ids were fixed.

mod admit;
mod fields;
mod gates;
mod meter;

use std::collections::BTreeMap;

use serde_json::Value;

use fields::text;
use meter::Meter;

/// A moment or a length of time, in microseconds.
pub type Time = i128;

/// A run, by the order in which the ids of runs were fixed.
pub type Ordinal = usize;

/// What the reference remembers something for: one control of one owner, and one key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The workflow, or the flow for a policy.
    pub owner: String,
    /// The control; limits are numbered.
    pub control: String,
    /// The key; `None` is shared by all that have none.
    pub key: Option<String>,
}

/// One stop on a run's way to its start, in the order of spec G9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stop {
    Singleton,
    Handoff,
    Session,
    RunLimit,
    Turn,
    Narrow,
    Wide,
}

/// Where a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Its fold is open: there is an id and no run.
    Folding,
    /// It waits at the stop that it has not passed.
    Line,
    Ready,
    Driven(u128),
    Sleeping(Time),
    Ended(&'static str),
}

#[derive(Clone, Debug)]
struct Run {
    workflow: String,
    version: i128,
    /// How many releases there had been when it was admitted.
    release: usize,
    /// What it carries: one event, or those of a batch.
    events: Vec<Value>,
    admitted: Time,
    rank: (Time, u64),
    state: State,
    way: Vec<(Stop, Place)>,
    passed: usize,
    started: bool,
    /// The engine that has yet to confirm that it stopped driving it.
    stopping: Option<u128>,
    /// Another was cancelled for it.
    replaced: bool,
    /// A restart: it stands before those who wait for the session in the ordinary way.
    in_place: bool,
    /// The window that it came from, where later requests still join it.
    window: Option<Place>,
}

impl Run {
    fn wakes_at(&self) -> Option<Time> {
        if let State::Sleeping(until) = self.state { Some(until) } else { None }
    }
}

#[derive(Clone, Debug)]
struct Fold {
    place: Place,
    workflow: String,
    control: &'static str,
    /// What it holds, each with the run that will carry it.
    items: Vec<Item>,
    /// Its time came, and this gate would have skipped it, in this version.
    blocked: Option<(Place, i128)>,
}

#[derive(Clone, Debug)]
struct Item {
    at: Time,
    data: Value,
    run: Ordinal,
}

/// What one workflow made of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The word.
    pub outcome: &'static str,
    /// The run that carries the event.
    pub run: Option<Ordinal>,
}

/// The whole of it.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    now: Time,
    releases: BTreeMap<String, Vec<Value>>,
    /// Workflows in the order in which they were first released, and whose turn was last.
    turns: (Vec<String>, Option<usize>),
    runs: Vec<Run>,
    folds: Vec<Fold>,
    meters: BTreeMap<Place, Meter>,
    /// Until when, and for which run.
    claims: BTreeMap<Place, (Time, Ordinal)>,
    arrivals: u64,
}

impl Reference {
    // ------------------------------------------------------------------ what is done

    /// Releases a definition: a workflow, or an action with its `flow`.
    pub fn release(&mut self, definition: &Value) {
        let name = text(definition, "name").expect("a name");
        let name = text(definition, "flow").map_or(name.clone(), |flow| format!("{flow}/{name}"));
        if !self.turns.0.contains(&name) {
            self.turns.0.push(name.clone());
        }
        self.releases.entry(name).or_default().push(definition.clone());
        self.settle();
    }

    /// Posts an event, or calls an action by its full name.
    pub fn post(&mut self, name: &str, data: &Value) -> Vec<(String, Told)> {
        let matches = |def: &Value| match def.get("triggers").and_then(Value::as_array) {
            Some(list) => {
                list.iter().any(|trigger| text(trigger, "event").as_deref() == Some(name))
            }
            None => false,
        };
        let all = self.releases.keys().cloned().collect::<Vec<_>>();
        let hit = all.into_iter().filter(|known| known == name || matches(self.current(known)));
        hit.collect::<Vec<_>>()
            .into_iter()
            .map(|workflow| {
                let told = self.arrive(&workflow, data);
                self.settle();
                let queued = told.run.is_some_and(|run| self.runs[run].state == State::Line);
                let waits = told.outcome == "started" && queued;
                (workflow, Told { outcome: if waits { "queued" } else { told.outcome }, ..told })
            })
            .collect()
    }

    /// Leases up to `limit` ready runs, workflows in turn and each by rank (spec P2); by rank.
    pub fn lease(&mut self, engine: u128, limit: usize) -> Vec<Ordinal> {
        let ready = self.ready();
        let (mut left, mut taken) = (ready.clone(), Vec::new());
        let (names, last) = &mut self.turns;
        // Whoever has nothing is passed over; once round without anybody, nothing is left.
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
        for &run in &leased {
            if !self.runs[run].started
                && let Some(place) = self.turn_of(run)
            {
                self.spend(&place, "throttle", &self.runs[run].workflow.clone());
            }
            self.runs[run].started = true;
            self.runs[run].state = State::Driven(engine);
            self.settle();
        }
        leased
    }

    /// A driven run completes or fails (spec G7).
    pub fn end(&mut self, run: Ordinal, how: &'static str) {
        self.runs[run].state = State::Ended(how);
        self.settle();
    }

    /// A driven run sleeps (spec G2).
    pub fn sleep(&mut self, run: Ordinal, time: Time) {
        self.requeue(run);
        self.runs[run].state = State::Sleeping(self.now + time);
        self.settle();
    }

    /// Somebody cancels a run; false where it has ended or is not there yet.
    pub fn cancel(&mut self, run: Ordinal) -> bool {
        let alive = self.alive(run);
        if alive {
            self.cut(run);
            self.settle();
        }
        alive
    }

    /// A worker says that it stopped a cancelled run.
    pub fn stopped(&mut self, run: Ordinal) {
        self.runs[run].stopping = None;
        self.settle();
    }

    /// An engine's lease is over: what it drove queues again, what it was stopping has stopped.
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

    /// The next moment at which something is due.
    pub fn next_due(&self) -> Option<Time> {
        let asleep = self.runs.iter().filter_map(Run::wakes_at);
        let folds = self.next_flush();
        let runs = 0..self.runs.len();
        let turns = runs.clone().filter_map(|run| self.turn_due(run));
        let patience = runs.filter_map(|run| self.gives_up_at(run));
        asleep.chain(folds).chain(turns).chain(patience).min()
    }

    /// The next moment at which a fold is due.
    pub fn next_flush(&self) -> Option<Time> {
        let open = self.folds.iter().filter(|fold| fold.blocked.is_none());
        open.map(|fold| self.deadline(fold)).min()
    }

    /// Time passes and nobody notices.
    pub fn pass(&mut self, time: Time) {
        self.now += time;
    }

    /// All that is due happens, in the order in which it became due.
    pub fn sweep(&mut self) {
        self.settle();
        loop {
            let folds = self.folds.iter().enumerate().filter(|(_, fold)| fold.blocked.is_none());
            let folds = folds.map(|(n, fold)| (self.deadline(fold), 0, n));
            let runs = self.runs.iter().enumerate();
            let patience = runs.clone().filter_map(|(n, _)| Some((self.gives_up_at(n)?, 1, n)));
            let asleep = runs.filter_map(|(n, run)| Some((run.wakes_at()?, 2, n)));
            let Some((due, kind, n)) = folds.chain(patience).chain(asleep).min() else { return };
            if due > self.now {
                return;
            }
            match kind {
                0 => drop(self.flush(n)),
                1 => self.cut(n),
                _ => self.requeue(n),
            }
            self.settle();
        }
    }

    // ------------------------------------------------------------------ what can be seen

    /// The state of every run that there is, as users see it.
    pub fn states(&self) -> Vec<&'static str> {
        let state = |run: &Run| match run.state {
            State::Folding => "none",
            State::Line | State::Ready => "queued",
            State::Driven(_) => "running",
            State::Sleeping(_) => "waiting",
            State::Ended(how) => how,
        };
        self.runs.iter().map(state).collect()
    }

    /// What every run carries, or will carry.
    pub fn carried(&self) -> Vec<Vec<Value>> {
        self.runs.iter().map(|run| run.events.clone()).collect()
    }

    /// This moment.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The rank of a run.
    pub fn rank(&self, run: Ordinal) -> (Time, u64) {
        self.runs[run].rank
    }

    /// The version of every run.
    pub fn versions(&self) -> Vec<i128> {
        self.runs.iter().map(|run| run.version).collect()
    }

    /// The runs that an engine drives, and those that it has yet to stop.
    pub fn driven(&self) -> (Vec<Ordinal>, Vec<Ordinal>) {
        let driven = |run: &Run| matches!(run.state, State::Driven(_));
        (self.by_rank(driven), self.by_rank(|run| run.stopping.is_some()))
    }

    /// The ready runs, best rank first.
    pub fn ready(&self) -> Vec<Ordinal> {
        self.by_rank(|run| run.state == State::Ready)
    }

    /// Who is inside each gate.
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

    /// Who waits at each gate or throttle, in order.
    pub fn lines(&self) -> BTreeMap<Place, Vec<Ordinal>> {
        let mut lines = BTreeMap::<Place, Vec<Ordinal>>::new();
        for run in self.by_rank(|run| run.state == State::Line && run.passed < run.way.len()) {
            let (_, place) = &self.runs[run].way[self.runs[run].passed];
            lines.entry(place.clone()).or_default().push(run);
        }
        for (place, line) in &mut lines {
            line.sort_by_key(|&run| self.order(run, place));
        }
        lines
    }

    // ------------------------------------------------------------------ small questions

    /// The definition that rules.
    fn current(&self, workflow: &str) -> &Value {
        self.releases[workflow].last().expect("never empty")
    }

    /// Whether a run was released earlier than another (spec versions).
    fn is_older(&self, run: Ordinal, than: Ordinal) -> bool {
        let released = |run: Ordinal| {
            let releases = &self.releases[&self.runs[run].workflow];
            releases.iter().rposition(|def| fields::version(def) == self.runs[run].version)
        };
        self.runs[run].workflow == self.runs[than].workflow && released(run) < released(than)
    }

    /// Whether a run is only promised: its window or buffer is open.
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
