//! Checks of gates, runs and the rows that belong to them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Report, Rule, shares::Shares};
use crate::{
    catalog::{Catalog, Limit},
    flow::control,
    id::{RunId, Seq},
    row::{
        Adapted, Class, Closed, Def, Ended, EngineId, Event, Gate, GateKey, GateState, Given,
        Listener, Numbers, Phase, Place, PlannedGate, Receipt, RowKey, RowNumbers, Run, Scope,
        Source, Span, WaitOn, WaitPath, WaitRow, Workspace,
    },
    run::{listen, wait},
    time::Timestamp,
};

/// State of a gate that has holders or turns, for the checks.
#[derive(Debug)]
struct Inside {
    id: Seq,
    due: Option<Timestamp>,
    head: Option<Place>,
    /// Holders for which no run with this hold has been read yet.
    unsaid: BTreeMap<RunId, u32>,
    /// Runs with a turn for which no run that waits for its start has been read yet.
    turns: BTreeSet<Seq>,
    count: usize,
    /// The sum of the holders' costs.
    units: u64,
    /// The cost of the first run in the queue.
    wanted: u32,
    is_turns: bool,
    /// The numbers of its limits that came from data.
    given: Option<Given>,
    /// The value of its limit, if it is adaptive and has changed.
    adapted: Option<Adapted>,
    /// The number of waiting runs, if the row has it, and the number of those that were read.
    waiting: Option<u32>,
    queued: u32,
    /// The first position in the queue.
    first: Option<Place>,
    /// The closing by a run.
    closed: Option<Closed>,
}

impl Inside {
    fn numbers(&self) -> RowNumbers<'_> {
        RowNumbers { given: self.given.as_ref(), adapted: self.adapted.as_ref() }
    }
}

/// State of all live runs, gates and folds, for the checks.
#[derive(Debug, Default)]
pub(super) struct Flow {
    gates: BTreeMap<GateKey, Inside>,
    shares: Shares,
    folds: Folds,
    /// Live runs, and whether they are stopping.
    live: BTreeMap<Seq, Stops>,
    /// Input events of runs and windows, with the workspace that they should belong to.
    inputs: BTreeMap<Seq, Vec<(Workspace, RunId)>>,
    owners: BTreeMap<EngineId, RunId>,
    lanes: BTreeMap<Seq, RunId>,
    awaited: BTreeMap<Seq, RunId>,
    waits: BTreeMap<RowKey, RunId>,
    paths: BTreeMap<(Workspace, String, String), RunId>,
    /// The run that waits for each name.
    names: BTreeMap<(Workspace, String), RunId>,
    /// Number of staged rows according to the run, minus the number of rows read.
    staged: BTreeMap<Seq, i64>,
    batches: BTreeMap<Seq, RunId>,
    /// Ended runs, in the order of their numbers.
    ended: Vec<Seq>,
}

type Stops = bool;

/// Windows and buffers.
#[derive(Debug, Default)]
struct Folds {
    /// Folds without a due time, and whether they are held.
    undue: Vec<(GateKey, bool)>,
    /// Folds that cannot flush because a gate holds them.
    kept: BTreeSet<GateKey>,
    /// Runs that open windows and buffers will create. They must not exist yet.
    runs: BTreeSet<Seq>,
    /// Number of items according to the buffer of a run, minus the number of item rows read.
    items: BTreeMap<Seq, i64>,
}

impl Flow {
    /// Whether a live run or an open buffer has this number.
    pub(super) fn knows(&self, run: Seq) -> bool {
        self.live.contains_key(&run) || self.folds.items.contains_key(&run)
    }

    pub(super) fn gate(&mut self, report: &mut Report, gate: &Gate) {
        let mut inside = Inside {
            id: gate.id,
            due: gate.due,
            head: None,
            unsaid: BTreeMap::new(),
            turns: BTreeSet::new(),
            count: 0,
            units: 0,
            wanted: 1,
            is_turns: false,
            given: gate.state.given().cloned(),
            adapted: gate.state.adapted().copied(),
            waiting: None,
            queued: 0,
            first: None,
            closed: None,
        };
        match &gate.state {
            GateState::Slots(slots) => {
                inside.head = slots.head;
                inside.unsaid = slots.holders.iter().map(|hold| (hold.run, hold.cost)).collect();
                inside.count = slots.holders.len();
                (inside.units, inside.wanted) = (slots.used(), slots.wanted.one());
                (inside.waiting, inside.closed) = (slots.waiting, slots.closed);
                self.folds.kept.extend(slots.folds.iter().cloned());
                let counted = slots.adapted.is_none_or(|it| it.successes < it.limit);
                report.check(Rule::Adaptive, counted, || {
                    format!("{} should have grown: {:?}", name(&gate.key), slots.adapted)
                });
                report.check(Rule::Holds, inside.unsaid.len() == inside.count, || {
                    format!("{} lists a holder twice", name(&gate.key))
                });
            }
            GateState::Turns(turns) => {
                (inside.head, inside.is_turns) = (turns.head, true);
                inside.closed = turns.closed;
                inside.turns = turns.pending.iter().map(|turn| turn.run).collect();
                inside.count = turns.pending.len();
            }
            GateState::Fold(fold) => {
                if gate.due.is_none() && !fold.paused {
                    self.folds.undue.push((gate.key.clone(), fold.held));
                }
                if !fold.fired && !fold.only_led() {
                    self.folds.runs.insert(fold.run.seq);
                }
                if gate.key.class().is_some_and(Class::keeps_all) {
                    let full = fold.full.iter().map(|part| (part.run.seq, part.count));
                    for (run, count) in full.chain([(fold.run.seq, fold.count)]) {
                        self.folds.items.insert(run, count.into());
                    }
                } else if let Some(scope) = gate.key.scope() {
                    self.inputs.entry(fold.last.seq).or_default().push((scope.ws, fold.run));
                }
                return;
            }
            GateState::Share(share) => return self.shares.share(gate, *share),
            GateState::Meter(_) | GateState::Claim(_) => return,
        }
        self.gates.insert(gate.key.clone(), inside);
    }

    pub(super) fn run(&mut self, report: &mut Report, run: &Run) {
        let (id, seq) = (run.id, run.id.seq);
        self.live.insert(seq, run.phase == Phase::Stopping);
        self.lanes.entry(run.lane).or_insert(id);
        self.inputs.entry(run.source.first().seq).or_default().push((run.ws.clone(), id));
        if let Source::Batch(_) = run.source {
            self.batches.insert(run.batch().seq, id);
        }
        if run.staged > 0 {
            self.staged.insert(seq, run.staged.into());
        }
        report.check(Rule::Folds, !self.folds.runs.contains(&seq), || {
            format!("{id} exists, although its window or buffer is still open")
        });
        self.owner(report, run);
        self.holds(report, run);
        fits(report, run);
        self.waits(report, run);
    }

    fn owner(&mut self, report: &mut Report, run: &Run) {
        let driven = matches!(run.phase, Phase::Driven | Phase::Stopping);
        report.check(Rule::Owners, driven == run.owner.is_some(), || {
            format!("{} has phase {:?} and owner {:?}", run.id, run.phase, run.owner)
        });
        if let Some(owner) = run.owner {
            self.owners.insert(owner, run.id);
        }
    }

    /// Checks the holds of a run and its position in a queue against the gates.
    fn holds(&mut self, report: &mut Report, run: &Run) {
        let id = run.id;
        for need in run.plan.iter().take(run.entered) {
            let gate = self.gates.get_mut(&need.gate);
            let inside = match (need.span, gate) {
                (Span::Start, _) if run.started && !need.is_of_steps() => true,
                (Span::Start, gate) => gate.is_some_and(|gate| gate.turns.remove(&id.seq)),
                (Span::Run | Span::Executing, gate) => {
                    let cost = gate.and_then(|gate| gate.unsaid.remove(&id));
                    cost == Some(need.costs.one())
                }
            };
            self.calls(report, id, need);
            report.check(Rule::Holds, inside, || {
                format!(
                    "{id} has entered {}, which does not list it with its cost",
                    name(&need.gate)
                )
            });
        }
        let Phase::Queued { gate, place } = run.phase else { return };
        self.shares.run(run, place);
        let next = run.plan.get(run.entered).and_then(|need| self.gates.get_mut(&need.gate));
        let stands = match next {
            Some(next) if next.id == gate => {
                next.first = next.first.into_iter().chain([place]).min();
                next.queued += 1;
                next.head.is_some_and(|head| head <= place)
            }
            Some(_) | None => false,
        };
        report.check(Rule::Holds, stands, || {
            format!("{id} is queued at {place:?}, but its next gate has no such queue")
        });
    }

    /// Checks what a run knows of an adaptive limit inside of which it calls.
    fn calls(&self, report: &mut Report, run: RunId, need: &PlannedGate) {
        let adapted = self.gates.get(&need.gate).and_then(|gate| gate.adapted.as_ref());
        let changes = adapted.map_or(0, |adapted| adapted.changes);
        for (step, calls) in &need.calls {
            let known = step.is_empty() || need.steps.contains_key(step);
            report.check(Rule::Adaptive, known && calls.since <= changes, || {
                let name = name(&need.gate);
                format!("{run} knows {calls:?} of step `{step}` at {name}, which has {adapted:?}")
            });
        }
    }

    fn filed(&mut self, run: &Run, name: &str, first: (String, Vec<u8>), step: String) {
        self.paths.insert((run.ws.clone(), name.to_owned(), first.0.clone()), run.id);
        self.waits.insert(wait::filed(run, name, first, step), run.id);
    }

    fn waits(&mut self, report: &mut Report, run: &Run) {
        for (n, listener) in run.listeners.iter().enumerate() {
            let Listener { name, path, value, first, .. } = listener;
            self.paths.insert((run.ws.clone(), name.clone(), path.clone()), run.id);
            if !first {
                self.filed(run, name, (path.clone(), value.clone()), listen::step(n));
            }
        }
        for wait in &run.waits {
            if let WaitOn::Named { name } = &wait.on {
                let other = self.names.insert((run.ws.clone(), name.clone()), run.id);
                report.check(Rule::Names, other.is_none(), || {
                    format!("{} and {other:?} wait for the signal `{name}`", run.id)
                });
            }
            match &wait.on {
                WaitOn::Event { .. } | WaitOn::Named { .. } => {
                    if let Some((topic, first)) = wait::indexed(&wait.on) {
                        self.filed(run, topic, first, wait.step.clone());
                    }
                }
                WaitOn::Child { run: before } | WaitOn::Before { run: before } => {
                    self.awaited.insert(before.seq, run.id);
                }
                WaitOn::Time | WaitOn::Retry | WaitOn::Signal { .. } => {}
            }
        }
        report.check(Rule::Reasons, !(run.started && run.is_after()), || {
            format!("{} has started, but still waits for an earlier run: {:?}", run.id, run.waits)
        });
        if run.phase == Phase::Waiting {
            let timed = run.waits.iter().all(|wait| {
                wait.until.is_some() || !matches!(wait.on, WaitOn::Time | WaitOn::Retry)
            });
            report.check(Rule::Reasons, timed && !run.waits.is_empty(), || {
                format!("{} is waiting, but has no wait that can end: {:?}", run.id, run.waits)
            });
        }
    }

    pub(super) fn engine(&mut self, report: &mut Report, id: EngineId) {
        if self.owners.remove(&id).is_some() {
            report.good(Rule::Owners);
        }
    }

    pub(super) fn def(&mut self, report: &mut Report, lane: Seq) {
        if self.lanes.remove(&lane).is_some() {
            report.good(Rule::Versions);
        }
    }

    pub(super) fn event(&mut self, report: &mut Report, event: &Event) {
        for (ws, run) in self.inputs.remove(&event.id.seq).into_iter().flatten() {
            report.check(Rule::Workspaces, ws == event.ws, || {
                format!(
                    "{run} belongs to workspace `{ws}`, its input {} to `{}`",
                    event.id, event.ws
                )
            });
        }
    }

    pub(super) fn ended(&mut self, report: &mut Report, ended: &Ended) {
        let (id, stops) = (ended.id, self.live.get(&ended.id.seq));
        self.ended.push(id.seq);
        report.check(Rule::Ends, stops != Some(&false), || {
            format!("{id} has ended, but its live row still exists")
        });
        if let Some(parent) = self.awaited.get(&id.seq) {
            report.check(Rule::Reasons, false, || {
                format!("{parent} still waits for {id}, which has ended")
            });
        }
    }

    /// Checks that the runs in a receipt exist, because the sender has their ids. `firstRunId` is
    /// not checked: an idempotency claim may exist longer than its run.
    pub(super) fn receipt(&mut self, report: &mut Report, receipt: &Receipt) {
        let named = |field: &str| receipt.verdict[field].as_str()?.parse::<RunId>().ok();
        for run in ["runId", "holder", "replaced"].into_iter().filter_map(named) {
            let (seq, folds) = (run.seq, &self.folds);
            let promised = folds.runs.contains(&seq) || folds.items.contains_key(&seq);
            let there =
                promised || self.live.contains_key(&seq) || self.ended.binary_search(&seq).is_ok();
            report.check(Rule::Answers, there, || {
                let event = receipt.event;
                format!("a receipt of event {event} names {run}, which does not exist")
            });
        }
    }

    pub(super) fn item(&mut self, run: Seq) {
        self.batches.remove(&run);
        if let Some(left) = self.folds.items.get_mut(&run) {
            *left -= 1;
        }
    }

    pub(super) fn wait(&mut self, report: &mut Report, row: &WaitRow) {
        let key = crate::row::Row::Wait(row.clone()).key();
        report.check(Rule::Waits, self.waits.remove(&key).is_some(), || {
            format!("run {} has a row of a wait for `{}`, but not the wait", row.run, row.name)
        });
    }

    pub(super) fn wait_path(&mut self, report: &mut Report, row: &WaitPath) {
        let place = (row.ws.clone(), row.name.clone(), row.path.clone());
        if self.paths.remove(&place).is_some() {
            report.good(Rule::Waits);
        }
    }

    pub(super) fn staged(&mut self, report: &mut Report, run: Seq) {
        report.check(Rule::Staged, self.live.contains_key(&run), || {
            format!("a session operation is staged for run {run}, which does not exist")
        });
        *self.staged.entry(run).or_default() -= 1;
    }

    pub(super) fn conclude(self, report: &mut Report, defs: BTreeMap<Workspace, Vec<Def>>) {
        for (lane, run) in &self.lanes {
            report.check(Rule::Versions, false, || {
                format!("{run} has a version that is not registered (lane {lane})")
            });
        }
        self.shares.conclude(report);
        self.conclude_gates(report, defs);
        self.conclude_folds(report);
        for (owner, run) in &self.owners {
            report.check(Rule::Owners, false, || {
                format!("{run} is driven by engine {owner:032x}, which has no row")
            });
        }
        for (event, needed) in &self.inputs {
            report.check(Rule::Workspaces, false, || {
                format!("event {event}, the input of {}, does not exist", needed[0].1)
            });
        }
        for (key, run) in &self.waits {
            report.check(Rule::Waits, false, || format!("a wait of {run} has no row: {key:?}"));
        }
        for ((_, name, path), run) in &self.paths {
            report.check(Rule::Waits, false, || {
                format!("{run} waits for `{name}` with the path `{path}`, which has no row")
            });
        }
        for (run, left) in &self.staged {
            report.check(Rule::Staged, *left == 0, || {
                format!("run {run} counts {left} more staged operations than it has rows")
            });
        }
    }

    fn conclude_gates(&self, report: &mut Report, defs: BTreeMap<Workspace, Vec<Def>>) {
        let mut catalogs = BTreeMap::new();
        for (ws, defs) in defs {
            match Catalog::build(0, defs) {
                Ok(catalog) => drop(catalogs.insert(ws, catalog)),
                Err(error) => report.check(Rule::Versions, false, || error.to_string()),
            }
        }
        for (key, gate) in &self.gates {
            for run in gate.unsaid.keys() {
                report.check(Rule::Holds, false, || {
                    format!(
                        "{} lists the holder {run}, which does not exist or does not hold the gate",
                        name(key)
                    )
                });
            }
            for run in &gate.turns {
                report.check(Rule::Holds, false, || {
                    format!(
                        "{} has given a turn to run {run}, which does not wait for its start",
                        name(key)
                    )
                });
            }
            let counted = gate.waiting.is_none_or(|waiting| waiting == gate.queued);
            report.check(Rule::Counts, counted, || {
                let (waiting, queued, name) = (gate.waiting, gate.queued, name(key));
                format!("{name} counts {waiting:?} waiting runs, but {queued} are in its queue")
            });
            let Some(scope) = key.scope() else { continue };
            let Some(catalog) = catalogs.get(&scope.ws) else { continue };
            let most = most(catalog, &scope);
            let within = most.is_none_or(|most| gate.units <= most || gate.count <= 1);
            report.check(Rule::Limits, within, || {
                let (units, name) = (gate.units, name(key));
                format!("holders take {units} units of {name}; its limit was never above {most:?}")
            });
            let limit = catalog.limit(&scope, gate.numbers());
            let until = gate.closed.map(|closed| closed.until);
            let opens = until.is_none() || gate.due.is_some() || limit == Limit::Closed;
            report.check(Rule::Closings, opens, || {
                format!("{} is closed until {until:?}, but has no due time", name(key))
            });
            let room = match limit {
                Limit::Slots(limit) => {
                    gate.count == 0 || gate.units + u64::from(gate.wanted) <= u64::from(limit)
                }
                Limit::Rates(_) => gate.is_turns && gate.count == 0,
                Limit::Open => true,
                Limit::Closed => false,
            };
            let stuck = room && gate.first.is_some() && gate.due.is_none();
            report.check(Rule::Queues, !stuck, || {
                format!("{} has room and queued runs, but no due time", name(key))
            });
        }
    }

    fn conclude_folds(&self, report: &mut Report) {
        for (key, held) in &self.folds.undue {
            report.check(Rule::Folds, *held && self.folds.kept.contains(key), || {
                format!("{} has neither a due time nor a gate that holds it", name(key))
            });
        }
        for (run, left) in &self.folds.items {
            report.check(Rule::Items, *left == 0, || {
                format!("the buffer of run {run} counts {left} more events than it has rows")
            });
        }
        for run in self.batches.values() {
            report.check(Rule::Items, false, || format!("the batch of {run} has no events"));
        }
    }
}

/// Checks that the number of gates that a run has entered is right for its phase, and that its
/// gates are in key order.
fn fits(report: &mut Report, run: &Run) {
    let (has, all) = (run.entered, run.plan.len());
    let fits = match run.phase {
        Phase::Waiting => has == run.kept(),
        Phase::Paused => has <= run.executing(),
        Phase::Ready | Phase::Driven => has == all,
        Phase::Queued { .. } => has < all,
        Phase::Stopping => has <= all,
    };
    report.check(Rule::Phases, fits, || {
        format!("{} has phase {:?} with {has} of its {all} gates entered", run.id, run.phase)
    });
    let (held, open) = run.plan.split_at(has.min(all));
    // Runs that an earlier build has queued take their own run limits in the order of their keys.
    let earlier = |one: &PlannedGate, next: &PlannedGate| {
        one.gate.class() == Some(Class::RunLimit) && next.gate.class() == Some(Class::RunLimit)
    };
    let ordered = |one: &PlannedGate, next: &PlannedGate| {
        let turns = one.gate == next.gate && !one.is_of_steps() && next.is_of_steps();
        one.gate.comes_before(&next.gate) || turns || earlier(one, next)
    };
    let sorted = open.windows(2).all(|two| ordered(&two[0], &two[1]));
    let before = |next: &PlannedGate| held.iter().all(|need| ordered(need, next));
    let after = open.first().is_none_or(before);
    report.check(Rule::Order, sorted && after, || {
        format!("the gates of {} are not in order", run.id)
    });
    let named = run.plan.iter().flat_map(|need| need.steps.keys());
    let inside = named.clone().all(|step| run.in_pools.contains(step));
    let waits = run.phase == Phase::Waiting && !run.in_pools.is_empty();
    report.check(Rule::StepPools, inside && !waits, || {
        let named: BTreeSet<&String> = named.clone().collect();
        format!("{} has the places {:?} and the gates of {named:?}", run.id, run.in_pools)
    });
    let own = run.plan.iter().all(|need| need.gate.is_of(&run.ws));
    report.check(Rule::Workspaces, own, || {
        format!("{} has a gate of another workspace in its plan", run.id)
    });
}

/// Returns the highest limit of a gate in any release: lowering a limit evicts no holder. None if
/// a release had no limit, for a handoff, which is given to all live runs, and for a gate that has
/// or had an override.
fn most(catalog: &Catalog, scope: &Scope) -> Option<u64> {
    let control = control::owner(scope.class);
    // An override may have raised the limit for holders that are still inside.
    if control.may_exceed || catalog.overrides().has_overridden(scope) {
        return None;
    }
    if let Some(pool) = scope.pool() {
        return catalog.pools().stored(pool).map(|stored| u64::from(stored.highest));
    }
    let versions = catalog.entry(&scope.app, &scope.name).map(|entry| entry.versions.values());
    let released = versions.into_iter().flatten().filter(|version| version.release.is_some());
    let limits = released
        .map(|version| Some((control.limit)(Some(version.workflow()?), scope, Numbers::Highest)));
    let limits: Option<Vec<Limit>> = limits.collect();
    let most = limits?.into_iter().map(|limit| match limit {
        Limit::Slots(most) => Some(u64::from(most)),
        Limit::Rates(_) | Limit::Open | Limit::Closed => None,
    });
    most.collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// Returns the display name of a gate.
fn name(key: &GateKey) -> String {
    match key.scope() {
        Some(scope) => {
            let kind = if scope.pool().is_some() { "pool " } else { "" };
            let (control, key) = (scope.class.control(), scope.shown_key());
            format!("{control} of {kind}`{}` for {key}", scope.name)
        }
        None => format!("gate {key:?}"),
    }
}
