//! Invariant checker (the judge): checks the invariants of `docs/spec/invariants.md` after every
//! commit, with one function for each number, and the final state of a simulation.

mod adaptive;
mod arrivals;
mod deliveries;
mod effects;
mod events;
mod folds;
mod gates;
mod history;
mod retention;
mod runs;
mod schedules;
mod streams;
mod turns;
mod versions;

use std::{collections::BTreeMap, sync::Arc};

use tidegate_core::{
    command::Command,
    doctor::Checkup,
    flow::{Verdict, step_pool::PoolAsk},
    id::Seq,
    reaction::Leased,
    reads::Change,
    row::{EngineId, GateKey, Phase, Purpose, Row, RowKey, Run, Workspace},
    time::Timestamp,
};
use tidegate_store::{Answered, SeededCommand};

use self::{effects::Places, history::History};
use super::{
    controls::{Controls, MOST, Range},
    state::{Delta, State},
    trace::Effect,
    workload::Plan,
};

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant's number.
    pub number: &'static str,
    /// The observed violation.
    pub text: String,
}

/// Result of a check.
type Checked = Result<(), String>;

/// A check and its invariant's number.
type Check = (&'static str, fn(&Look<'_>, &History) -> Checked);

/// The checks of every commit, in addition to those of [`doctor`].
const CHECKS: &[Check] = &[
    ("I1", arrivals::i1),
    ("I2", gates::i2),
    ("I6", runs::i6),
    ("I7", gates::i7),
    ("I8", gates::i8),
    ("I11", gates::i11),
    ("I12", arrivals::i12),
    ("I13", arrivals::i13),
    ("I15", folds::i15),
    ("I16", folds::i16),
    ("I17", folds::i17),
    ("I18", arrivals::i18),
    ("I19", arrivals::i19),
    ("I20", arrivals::i20),
    ("I21", gates::i21),
    ("I22", versions::i22),
    ("I23", runs::i23),
    ("I25", runs::i25),
    ("I27", runs::i27),
    ("I28", runs::i28),
    ("I29", versions::i29),
    ("I30", versions::i30),
    ("I31", versions::i31),
    ("I33", events::i33),
    ("I48", arrivals::i48),
    ("I51", retention::i51),
    ("I53", runs::i53),
    ("I54", gates::i54),
    ("I60", events::i60),
    ("I61", events::i61),
    ("I62", folds::i62),
    ("I63", gates::i63),
    ("I69", gates::i69),
    ("I66", runs::i66),
    ("I79", gates::i79),
    ("I80", gates::i80),
    ("I76", gates::i76),
    ("I74", effects::i74),
    ("I90", deliveries::i90),
    ("I95", adaptive::i95),
    ("I96", runs::i96),
    ("I97", events::i97),
];

/// One commit, with the data that the checks need.
#[derive(Debug)]
pub struct Look<'a> {
    plan: &'a Plan,
    /// All rows after the commit.
    state: &'a State,
    deltas: &'a [Delta],
    commands: &'a [SeededCommand],
    answers: &'a [Answered],
    /// Whether only the rows of the commit are given, not its commands and their answers.
    rows_only: bool,
    /// The store's time of the commit.
    at: Timestamp,
    /// The time that processes measure, in microseconds.
    now: u64,
    /// The queued runs of each gate, by the gate's number.
    lines: BTreeMap<Seq, Vec<&'a Run>>,
}

impl<'a> Look<'a> {
    /// Returns the runs that changed: before and after the commit.
    fn runs(&self) -> impl Iterator<Item = (Option<&'a Run>, Option<&'a Run>)> {
        let runs = self.deltas.iter().filter(|delta| matches!(delta.key, RowKey::Run(_)));
        runs.map(|delta| {
            (
                delta.before.as_ref().and_then(Row::as_run),
                delta.after.as_ref().and_then(Row::as_run),
            )
        })
    }

    /// Returns a run before the commit.
    fn before(&self, seq: Seq) -> Option<&'a Run> {
        let delta = self.deltas.iter().find(|delta| delta.key == RowKey::Run(seq));
        match delta {
            Some(delta) => delta.before.as_ref().and_then(Row::as_run),
            None => self.state.run(seq),
        }
    }

    /// Whether the commit changed definitions.
    fn redefines(&self) -> bool {
        self.deltas.iter().any(|delta| matches!(delta.key, RowKey::Def(_)))
    }

    /// Returns the controls of the released version of a workflow.
    fn controls(&self, ws: &str, name: &str) -> Option<&'a Controls> {
        let def = self.state.current(&ws.into(), name)?;
        Some(&self.plan.spec(name)?.version(def.version).0)
    }

    /// Returns the range of a gate's limit by the released definition, if it is adaptive.
    fn range(&self, gate: &GateKey) -> Option<Range> {
        let scope = gate.scope().expect("a gate's key");
        match scope.pool() {
            Some(pool) => self.state.pool_range(&scope.ws, pool),
            None => self.controls(&scope.ws, &scope.name)?.adaptive(scope.class, &scope.slot),
        }
    }

    /// Returns the limit in force of a gate; `None` if it has no limit.
    fn limit(&self, gate: &GateKey) -> Option<u64> {
        let start = self.defined_limit(gate)?;
        let adapted = self.state.gate(gate).and_then(|gate| gate.state.adapted());
        match (self.range(gate), adapted) {
            (Some(range), Some(adapted)) => {
                Some(u64::from(adapted.limit).clamp(range.min, range.max))
            }
            _ => Some(start),
        }
    }

    /// Returns the limit of a gate by the released definition; `None` if it has no limit.
    fn defined_limit(&self, gate: &GateKey) -> Option<u64> {
        let scope = gate.scope().expect("a gate's key");
        if let Some(pool) = scope.pool() {
            return self.state.pool_limit(&scope.ws, pool);
        }
        match self.controls(&scope.ws, &scope.name) {
            Some(controls) => {
                let given = self.state.gate(gate).and_then(gates::given);
                controls.limit(scope.class, &scope.slot, given)
            }
            // The gate of a session has the name of the flow, not of a workflow; its limit is 1.
            None => Some(1),
        }
    }

    /// Returns the highest limit that a gate had during the commit: each admitted run may set it by
    /// its data (spec L12).
    fn highest_limit(&self, gate: &GateKey) -> Option<u64> {
        if self.range(gate).is_some() {
            return self.limit(gate).map(|limit| adaptive::highest(self, gate, limit));
        }
        let scope = gate.scope().expect("a gate's key");
        let Some(controls) = self.controls(&scope.ws, &scope.name) else { return self.limit(gate) };
        let rows = self.deltas.iter().filter_map(|delta| delta.before.as_ref()?.as_gate());
        let before = rows.filter(|row| row.key == *gate).map(gates::given);
        let runs = self.runs().filter_map(|(_, after)| after);
        let set = runs.flat_map(|run| &run.plan).filter(|need| need.gate == *gate);
        let set = set.map(|need| need.given.as_ref().and_then(|given| given.at(0).limit));
        // The numbers of a run that was admitted in the commit are not known if it has ended in it,
        // or got the input of a later event.
        let of_window = |run: &Run| {
            let mut folds = self.state.gates().filter_map(folds::of);
            folds.any(|fold| fold.fired && fold.run == run.id)
        };
        let brief = self.deltas.iter().any(|delta| match &delta.after {
            Some(Row::Ended(ended)) => self.before(ended.id.seq).is_none(),
            Some(Row::Run(run)) => delta.before.is_none() && of_window(run),
            _ => false,
        });
        let set = set.chain(brief.then_some(u32::try_from(MOST).ok()));
        let limit = |given| controls.limit(scope.class, &scope.slot, given);
        let highest = before.chain(set).filter_map(limit).max();
        self.limit(gate).map(|limit| highest.unwrap_or(limit).max(limit))
    }

    /// Returns each command with its answer.
    fn answered(&self) -> impl Iterator<Item = (&'a Command, &'a Answered)> {
        self.commands.iter().map(|(command, _)| command).zip(self.answers)
    }
}

/// Whether a run is a compensation: it was not admitted, but has the holds of the run that it
/// compensates.
fn undoes(run: &Run) -> bool {
    matches!(run.purpose, Purpose::Compensates(_))
}

/// Runs the checks that need only rows, which `doctor` also runs on live stores.
fn doctor(state: &State) -> Option<Violation> {
    // Limits are checked by `i2`, with the numbers of the plan.
    let mut checkup = Checkup::without_limits();
    state.rows().for_each(|row| checkup.see(row));
    let first = checkup.conclude().findings.into_iter().next()?;
    Some(Violation { number: first.rule.number(), text: first.text })
}

/// Checks every commit of a simulation.
#[derive(Debug)]
pub struct Judge {
    /// All rows as of the last commit.
    pub state: State,
    /// Number of ended runs.
    pub ended: u64,
    /// The first violation.
    pub violation: Option<Violation>,
    plan: Arc<Plan>,
    history: History,
}

impl Judge {
    /// Creates a judge before the first commit.
    pub fn new(plan: Arc<Plan>) -> Self {
        let (state, history) = (State::default(), History::default());
        Self { state, ended: 0, violation: None, plan, history }
    }

    /// Records a violation; only the first one is kept.
    pub fn report(&mut self, number: &'static str, text: String) {
        self.violation.get_or_insert(Violation { number, text });
    }

    /// Checks a commit.
    pub fn commit(
        &mut self,
        now: u64,
        at: Timestamp,
        commands: &[SeededCommand],
        answers: &[Answered],
        changes: Vec<Change>,
    ) {
        self.look(now, at, Some((commands, answers)), changes);
    }

    /// Checks a commit whose commands are not known.
    pub fn rows(&mut self, now: u64, at: Timestamp, changes: Vec<Change>) {
        self.look(now, at, None, changes);
    }

    fn look(
        &mut self,
        now: u64,
        at: Timestamp,
        asked: Option<(&[SeededCommand], &[Answered])>,
        changes: Vec<Change>,
    ) {
        let (commands, answers) = asked.unwrap_or_default();
        let deltas = self.state.apply(changes);
        let ends = deltas.iter().filter(|delta| matches!(delta.key, RowKey::Ended(_)));
        self.ended += ends.count() as u64;
        let mut lines: BTreeMap<Seq, Vec<&Run>> = BTreeMap::new();
        for run in self.state.runs() {
            if let Phase::Queued { gate, .. } = run.phase {
                lines.entry(gate).or_default().push(run);
            }
        }
        let look = Look {
            plan: &self.plan,
            state: &self.state,
            deltas: &deltas,
            commands,
            answers,
            rows_only: asked.is_none(),
            at,
            now,
            lines,
        };
        self.history.learn(&look);
        let schedules = self.history.schedules.play(&look).err();
        let schedules = schedules.map(|text| Violation { number: "I52", text });
        let broken = self.history.streams.play(&look).or(schedules);
        let turns = self.history.turns.play(&look).err();
        let broken = broken.or(turns.map(|(number, text)| Violation { number, text }));
        let broken = broken.or_else(|| doctor(look.state)).or_else(|| {
            CHECKS.iter().find_map(|(number, check)| {
                check(&look, &self.history).err().map(|text| Violation { number, text })
            })
        });
        self.history.count(&look);
        if let Some(violation) = broken {
            self.report(violation.number, violation.text);
        }
    }

    /// Records a verdict that a caller got. The run that it names must end, and every id in it must
    /// be found from now on.
    pub fn promised(&mut self, verdict: &Verdict) {
        self.history.promised.extend(verdict.run().map(|run| run.seq));
        self.history.answered.extend(history::named(verdict));
    }

    /// Records an engine's heartbeat.
    pub fn heartbeat(&mut self, now: u64, (engine, lease_ms): (EngineId, u32), alive: bool) {
        self.state.heartbeat(engine, lease_ms);
        if alive {
            self.history.beats.insert(engine, (now, lease_ms));
        }
        let dead = self.state.engine(engine).is_none_or(|row| row.dead);
        if dead == alive {
            self.report(
                "I27",
                format!("heartbeat of {engine}: accepted {alive}, but marked dead {dead}"),
            );
        }
    }

    /// Records a step of the store's clock: times that were measured before are not valid any more.
    pub fn clock_stepped(&mut self) {
        self.history.clock_stepped();
    }

    /// Records the start of a step's closure, and the pools that the step passes.
    pub fn start(&mut self, effect: &Effect, pools: &[PoolAsk]) {
        for (number, check) in effects::ON_START {
            if let Err(text) = check(&self.state, &self.history, effect) {
                self.report(number, format!("{effect:?}: {text}"));
            }
        }
        let places = Places { effect: effect.clone(), pools: pools.to_vec() };
        if let Err(text) = places.check(&self.state) {
            self.report("I74", text);
        }
        self.history.start(effect, places);
    }

    /// Records the end of a step's closure.
    pub fn end(&mut self, effect: &Effect) {
        self.history.end(effect);
    }

    /// Records that the handler of a reaction has finished an event.
    pub fn handled(&mut self, leased: &Leased, version: i64) {
        if let Err((number, text)) = self.history.streams.handled(leased, version) {
            self.report(number, text);
        }
    }

    /// Returns the blocked subscriptions: workspace, reaction and stream.
    pub fn blocked_places(&self) -> Vec<(Workspace, String, String)> {
        self.history.streams.blocked()
    }

    /// Whether all runs have ended and all reactions have handled all events.
    pub fn is_at_rest(&self) -> bool {
        self.state.is_at_rest() && self.history.streams.unfinished().is_none()
    }

    /// Reports runs and reactions that do not finish after the faults have stopped.
    pub fn report_unsettled(&mut self) {
        if let Some(text) = self.history.streams.unfinished().filter(|_| self.state.is_at_rest()) {
            return self
                .report("I50", format!("a reaction does not finish after the faults: {text}"));
        }
        if self.state.is_at_rest() {
            let rows: Vec<_> = self.state.schedules().take(3).collect();
            return self
                .report("I52", format!("an occurrence is not started after the faults: {rows:?}"));
        }
        let runs: Vec<_> = self.state.runs().take(3).collect();
        let folds = self.state.gates().filter(|gate| folds::of(gate).is_some());
        let folds: Vec<_> = folds.take(3).collect();
        let text = format!("runs do not end after the faults: {runs:?}, folds: {folds:?}");
        self.report("I5", text);
    }

    /// Checks the final state of a simulation: no hold or promise may be left.
    pub fn settled(&mut self) {
        for check in [gates::settled, arrivals::settled, deliveries::settled, runs::settled] {
            if let Err((number, text)) = check(&self.state, &self.history) {
                self.report(number, text);
            }
        }
    }
}
