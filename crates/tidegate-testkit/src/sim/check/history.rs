//! What the judge records in addition to rows: times of events, and answers to callers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidegate_core::{
    command::{Answer, Command},
    event::Outcome,
    flow::Verdict,
    id::{EventId, RunId, Seq},
    json::Payload,
    request::Request,
    row::{
        Class, Ending, EngineId, GateKey, GateState, Purpose, Row, RowKey, Span, StepKind,
        Workspace,
    },
    run::record::NewSend,
    time::Timestamp,
};

use super::{
    Look,
    effects::Places,
    events::{self, Rule},
    folds, retention,
    schedules::ScheduleModel,
    streams::StreamModel,
    turns::TurnModel,
};
use crate::sim::{
    controls::{Controls, Policy},
    trace::Effect,
};

/// A debounce window, as recorded from the answers to its callers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Time of its first event.
    pub opened: Timestamp,
    /// The earliest time at which the window may fire.
    pub not_before: Timestamp,
    /// The latest time at which the window must be due.
    pub by: Timestamp,
    /// The kept event: the last accepted one, or the first.
    pub kept: EventId,
    /// Whether a release may have changed which event is kept.
    pub changed: bool,
    /// Whether the last event arrived after the due time.
    pub late: bool,
}

/// The verdict on one event for one workflow, as its sender got it.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub ws: Workspace,
    pub workflow: String,
    pub word: String,
    pub run: Option<RunId>,
    pub holder: Option<RunId>,
    /// The event, if the answer had its id.
    pub event: Option<EventId>,
    pub data: Value,
    /// Whether the controls that act on arrival apply to the event.
    pub arrives: bool,
}

impl Told {
    /// Returns the run, if the event made one at once.
    pub(super) fn made(&self) -> Option<RunId> {
        self.run.filter(|_| matches!(self.word.as_str(), "started" | "queued" | "replaced"))
    }

    /// Returns the key by which a control counts the event: the path and its value.
    pub(super) fn place(&self, path: Option<&str>) -> Place {
        let mut value = path.map_or(Some(&self.data), |_| None);
        if let Some(path) = path {
            value = path.split('.').try_fold(&self.data, |data, name| data.get(name));
        }
        let key =
            path.map(|path| format!("{path}={}", value.map(Value::to_string).unwrap_or_default()));
        (self.ws.clone(), self.workflow.clone(), key.unwrap_or_default())
    }
}

/// A workspace, a workflow and a key.
pub(super) type Place = (Workspace, String, String);

/// A claim of an idempotency key, as recorded from the answers to its callers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claimed {
    pub until: Timestamp,
    pub run: RunId,
}

/// Units of a meter that were spent at one time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    /// The time.
    pub at: Timestamp,
    /// The units.
    pub cost: u64,
}

/// All records of the judge.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Time of each engine's last heartbeat, and the length of its lease in milliseconds.
    pub beats: BTreeMap<EngineId, (u64, u32)>,
    /// Times of first starts, by the gate of the throttle.
    pub starts: BTreeMap<GateKey, Vec<Spent>>,
    /// Times of the spent tokens of rate limits.
    pub tokens: BTreeMap<Place, Vec<Spent>>,
    /// Claims of idempotency keys.
    pub claims: BTreeMap<Place, Claimed>,
    /// Open and fired windows, by the number of their run.
    pub windows: BTreeMap<Seq, Window>,
    /// Ends of the windows whose first event made a run (`edge: leading`), and the longest ends that
    /// they may get.
    pub led: BTreeMap<Place, (Timestamp, Timestamp)>,
    /// Runs that an event made at once although a window of its key was open.
    pub early: Vec<RunId>,
    /// The largest batch size of any released version, by workflow.
    pub largest: BTreeMap<(Workspace, String), u64>,
    /// The first event of each `dedupeId`.
    pub dedupe: BTreeMap<(Workspace, String), EventId>,
    /// Number of accepted signals, by run.
    pub signals: BTreeMap<Seq, usize>,
    /// The verdicts of this commit.
    pub told: Vec<Told>,
    /// The runs that verdicts named.
    pub promised: BTreeSet<Seq>,
    /// The ids in the answers of this commit.
    pub answers: Vec<Seq>,
    /// The ids in all answers so far.
    pub answered: BTreeSet<Seq>,
    /// Number of commits.
    commits: u64,
    /// The number of the commit in which a run was first leased.
    pub begun: BTreeMap<Seq, u64>,
    /// The number of the commit that made a release.
    pub released: BTreeMap<(Workspace, i64), u64>,
    /// Step closures that are running.
    pub running: Vec<Effect>,
    /// All step closures that were started.
    pub started: BTreeSet<Effect>,
    /// Runs of which a step closure was started.
    pub driven: BTreeSet<Seq>,
    /// The run that replaced each replaced run.
    pub successors: BTreeMap<Seq, Seq>,
    /// Workflows that were redefined, so that the counts for them are incomplete.
    pub redefined: BTreeSet<(Workspace, String)>,
    /// The release under which a run was admitted, or to which it was moved.
    pub releases: BTreeMap<Seq, i64>,
    /// Runs that were moved to a newer version.
    pub moved: BTreeSet<Seq>,
    /// Runs that a throttle had admitted before it was redefined.
    pub let_through: BTreeSet<Seq>,
    /// Whether the store's clock has stepped.
    pub stepped: bool,
    /// Runs that were replaced.
    pub replaced: BTreeSet<Seq>,
    /// The time until which a run must start, from its admission on.
    pub start_by: BTreeMap<Seq, Timestamp>,
    /// The rules of each run about the events that concern it.
    pub rules: BTreeMap<Seq, Vec<Rule>>,
    /// Runs that did not start in time.
    pub expired: BTreeSet<Seq>,
    /// The ids that retention has deleted.
    pub forgotten: BTreeSet<Seq>,
    /// Executing closures of steps that pass pools.
    pub places: Vec<Places>,
    /// Model of streams and reactions.
    pub streams: StreamModel,
    /// Model of schedules.
    pub schedules: ScheduleModel,
    /// Model of the turns at fair gates.
    pub turns: TurnModel,
}

impl History {
    /// Whether the records of a key are complete: the clock has not stepped, and the workflow was
    /// not redefined.
    pub(super) fn is_whole(&self, place: &Place) -> bool {
        !self.stepped && !self.redefined.contains(&(place.0.clone(), place.1.clone()))
    }

    pub(super) fn clock_stepped(&mut self) {
        self.stepped = true;
        self.streams.clock_stepped();
        self.starts.clear();
        self.tokens.clear();
        self.claims.clear();
        self.windows.clear();
        self.led.clear();
        self.start_by.clear();
    }

    pub(super) fn start(&mut self, effect: &Effect, places: Places) {
        if !places.pools.is_empty() {
            self.places.push(places);
        }
        self.running.push(effect.clone());
        self.started.insert(effect.clone());
        self.driven.insert(effect.run.seq);
    }

    pub(super) fn end(&mut self, effect: &Effect) {
        self.running.retain(|other| other != effect);
        self.places.retain(|other| other.effect != *effect);
    }

    /// Records a commit.
    pub(super) fn learn(&mut self, look: &Look<'_>) {
        self.commits += 1;
        self.told = told(look);
        self.learn_definitions(look);
        self.learn_expiry(look);
        let admitted = look.runs().filter_map(|(before, after)| after.filter(|_| before.is_none()));
        for run in admitted {
            self.rules.extend(events::rules(look, run).map(|rules| (run.id.seq, rules)));
        }
        for (before, after) in look.runs() {
            if let Some(run) = after.filter(|run| before.is_none_or(|old| old.lane != run.lane)) {
                self.releases.insert(run.id.seq, look.state.release_of(run.lane));
                self.moved.extend(before.map(|old| old.id.seq));
            }
            let Some(run) = after.filter(|run| run.started) else { continue };
            if before.is_some_and(|run| run.started) {
                continue;
            }
            self.begun.insert(run.id.seq, self.commits);
            if self.let_through.contains(&run.id.seq) {
                continue;
            }
            for need in run.plan.iter().filter(|need| need.span == Span::Start) {
                let (at, cost) = (look.at, u64::from(need.costs.one()));
                self.starts.entry(need.gate.clone()).or_default().push(Spent { at, cost });
            }
        }
        for delta in look.deltas {
            if let Some(Row::Ended(ended)) = &delta.after
                && let Ending::Cancelled { by: Some(by), .. } = &ended.ending
            {
                self.replaced.insert(ended.id.seq);
                if ended.ending.deduped_by().is_none() {
                    self.successors.insert(ended.id.seq, by.seq);
                }
            }
        }
        self.forgotten.extend(retention::forgotten(look));
        self.answers = answers(look);
        self.answered.extend(&self.answers);
        for (command, answer) in look.answered() {
            if let (Command::Signal { run, .. }, Ok(Answer::Done)) = (command, answer) {
                *self.signals.entry(run.seq).or_default() += 1;
            }
        }
        self.early.clear();
        for told in self.told.clone() {
            self.learn_led(look, &told);
            self.promised.extend(told.run.map(|run| run.seq));
            if told.word == "coalesced" {
                self.learn_window(look, &told);
            }
        }
    }

    /// Records the time until which each new run must start, and the runs that expired.
    fn learn_expiry(&mut self, look: &Look<'_>) {
        // A commit that changes definitions may have admitted runs by the old definition.
        for (_, run) in look.runs().filter(|_| !look.redefines()) {
            let Some(run) = run.filter(|run| look.before(run.id.seq).is_none()) else { continue };
            let controls = look.controls(&run.ws, &run.workflow);
            let ms = controls.and_then(|controls| controls.start_within_ms);
            let ms = ms.filter(|_| run.purpose == Purpose::Ordinary && !self.stepped);
            self.start_by.extend(ms.map(|ms| (run.id.seq, run.queued_at.plus_ms(ms))));
        }
        let ended = look.deltas.iter().filter_map(|delta| delta.after.as_ref());
        let expired = ended.filter_map(|row| match row {
            Row::Ended(ended) if is_expired(&ended.ending) || is_dropped(&ended.ending) => {
                Some(ended.id.seq)
            }
            _ => None,
        });
        self.expired.extend(expired);
    }

    fn learn_definitions(&mut self, look: &Look<'_>) {
        for delta in look.deltas {
            let Some(Row::Def(def)) = &delta.after else { continue };
            let name = (def.ws.clone(), def.name.clone());
            let release = def.released.unwrap_or_default();
            self.released.entry((def.ws.clone(), release)).or_insert(self.commits);
            if delta.before.is_some() || def.version > 1 {
                self.redefined.insert(name.clone());
                let of = |place: &Place| (place.0.clone(), place.1.clone()) == name;
                self.tokens.retain(|place, _| !of(place));
                self.starts.retain(|gate, _| gate.scope().is_none_or(|scope| scope.name != name.1));
                for gate in look.state.gates() {
                    if let GateState::Turns(turns) = &gate.state {
                        self.let_through.extend(turns.pending.iter().map(|turn| turn.run));
                    }
                }
            }
            let spec = look.plan.spec(&def.name);
            let controls = spec.map(|spec| &spec.version(def.version).0);
            // If the new version has no such control, the collected events are flushed unchanged.
            let size = |class| controls.and_then(|controls| controls.most(class)).unwrap_or(0);
            let size = size(Class::Batch).max(size(Class::Gather));
            let largest = self.largest.entry(name).or_default();
            *largest = size.max(*largest);
        }
    }

    /// Records windows whose first event makes a run, and whose other events make none.
    fn learn_led(&mut self, look: &Look<'_>, told: &Told) {
        let Some(controls) = look.controls(&told.ws, &told.workflow) else { return };
        let Some(quiet) = controls.debounce.filter(|it| it.edge == "leading") else { return };
        let place = told.place(quiet.key);
        if !told.arrives || !self.is_whole(&place) {
            return;
        }
        let quiet_until = look.at.plus_ms(quiet.period);
        let longest = quiet.longest.map_or(Timestamp::MAX, |ms| look.at.plus_ms(ms));
        let open = self.led.get(&place).copied().filter(|(end, _)| *end > look.at);
        match (open, told.word.as_str(), told.run) {
            (Some(_), "started" | "queued" | "replaced" | "buffered", Some(run)) => {
                self.early.push(run);
            }
            (Some((_, longest)), "coalesced", _) => {
                self.led.insert(place, (quiet_until.min(longest), longest));
            }
            (None, "started" | "queued" | "replaced" | "buffered", Some(_)) => {
                self.led.insert(place, (quiet_until.min(longest), longest));
            }
            _ => {}
        }
    }

    fn learn_window(&mut self, look: &Look<'_>, told: &Told) {
        let (Some(run), Some(event), false) = (told.run, told.event, self.stepped) else { return };
        let Some(controls) = look.controls(&told.ws, &told.workflow) else { return };
        let (period, longest, keep, edge) = match (controls.debounce, &controls.policy) {
            (Some(it), _) => (it.period, it.longest, it.keep, it.edge),
            (None, Some(Policy::Debounce(period))) => (*period, None, "last", "trailing"),
            _ => return,
        };
        let known = self.windows.get(&run.seq).copied();
        if known.is_none() && edge == "leading" {
            return; // The window makes no further run.
        }
        let late = known.is_some_and(|window| window.by <= look.at);
        // The window has fired: its run exists and takes the event, and the due time does not
        // change.
        let fired = look.state.run(run.seq).is_some() || look.before(run.seq).is_some();
        let row = || look.state.gates().filter_map(folds::of).find(|fold| fold.run == run);
        // With `both` the window is older than the first event of its run.
        let older = (edge == "both").then(row).flatten().map_or(look.at, |fold| fold.opened);
        let opened = known.map_or(older, |window| window.opened);
        let quiet = look.at.plus_ms(period);
        let end = longest.map_or(quiet, |longest| quiet.min(opened.plus_ms(longest)));
        let window = match known {
            Some(window) if fired => Window { kept: event, ..window },
            None if fired => return,
            _ => {
                let first = known.filter(|_| keep == "first").map(|window| window.kept);
                let kept = first.unwrap_or(event);
                let changed = look.redefines() || known.is_some_and(|window| window.changed);
                Window { opened, not_before: end, by: end, kept, changed, late }
            }
        };
        self.windows.insert(run.seq, window);
    }
}

/// Returns whether a run was cancelled because it did not start in time.
pub(super) fn is_expired(ending: &Ending) -> bool {
    matches!(ending, Ending::Cancelled { reason, .. } if reason == Ending::EXPIRED)
}

/// Returns whether a run was cancelled because a newer one found its queue full.
pub(super) fn is_dropped(ending: &Ending) -> bool {
    matches!(ending, Ending::Cancelled { reason, by: None } if reason == Ending::DISPLACED)
}

/// Whether a workflow makes runs at once, without a window or a buffer before.
pub(super) fn is_direct(controls: &Controls) -> bool {
    controls.debounce.is_none()
        && controls.batch.is_none()
        && !matches!(controls.policy, Some(Policy::Debounce(_)))
}

/// Returns the verdicts in the answers of a commit.
fn told(look: &Look<'_>) -> Vec<Told> {
    let mut all = Vec::new();
    for (command, answer) in look.answered() {
        match (command, answer) {
            (Command::Post { ws, events }, Ok(Answer::Posted(posted))) => {
                for (event, posted) in events.iter().zip(posted) {
                    let data = json(&event.data);
                    let one = |outcome| of(ws, outcome, Some(posted.id), data.clone(), true);
                    all.extend(posted.runs.iter().map(one));
                }
            }
            (Command::SweepChore { known }, Ok(answer)) => {
                let id = EventId { seq: known.id.seq, salt: known.id.salt };
                let row = look.state.row(&RowKey::Event(id.seq));
                let Some(Row::Event(event)) = row else { continue };
                let data = json(&event.data);
                let one = |outcome| of(&known.ws, outcome, Some(id), data.clone(), true);
                match answer {
                    Answer::Posted(posted) => {
                        all.extend(posted.iter().flat_map(|posted| &posted.runs).map(one));
                    }
                    Answer::Admitted(outcome) => all.push(one(outcome)),
                    _ => {}
                }
            }
            (Command::Dispatch { ws, request }, Ok(Answer::Admitted(outcome))) => {
                all.push(of(ws, outcome, inputs(look).next(), called_with(request), true));
            }
            (
                Command::DispatchThen { ws, first, then },
                Ok(Answer::AdmittedBoth(outcome, second)),
            ) => {
                let mut inputs = inputs(look);
                all.push(of(ws, outcome, inputs.next(), called_with(first), true));
                let second = second.as_deref();
                all.extend(second.map(|it| of(ws, it, inputs.next(), called_with(then), true)));
            }
            (Command::Occur { occurrence, .. }, Ok(Answer::Admitted(outcome))) => {
                all.push(of(&occurrence.ws, outcome, inputs(look).next(), Value::Null, false));
            }
            (Command::Record { known, report }, Ok(_)) => {
                for send in &report.sends {
                    all.extend(sent(look, &known.ws, report.run, send));
                }
            }
            _ => {}
        }
    }
    all
}

/// Returns all ids in the answers of a commit.
fn answers(look: &Look<'_>) -> Vec<Seq> {
    let mut ids = Vec::new();
    for (_, answer) in look.answered() {
        match answer {
            Ok(Answer::Posted(posted)) => {
                ids.extend(posted.iter().map(|posted| posted.id.seq));
                let outcomes = posted.iter().flat_map(|posted| &posted.runs);
                ids.extend(outcomes.flat_map(|outcome| named(&outcome.verdict)));
            }
            Ok(Answer::Admitted(outcome)) => ids.extend(named(&outcome.verdict)),
            Ok(Answer::AdmittedBoth(first, then)) => {
                let both = std::iter::once(first).chain(then.as_deref());
                ids.extend(both.flat_map(|outcome| named(&outcome.verdict)));
            }
            _ => {}
        }
    }
    ids
}

/// Returns the ids in a verdict.
pub(super) fn named(verdict: &Verdict) -> Vec<Seq> {
    let other = match verdict {
        Verdict::Skipped { holder, .. } | Verdict::HeldByAncestor { holder, .. } => Some(*holder),
        Verdict::Deduped { run, .. } => *run,
        Verdict::Replaced { replaced, .. } => Some(*replaced),
        _ => None,
    };
    let first = if let Verdict::Deduped { first, .. } = verdict { Some(first.seq) } else { None };
    verdict.run().into_iter().chain(other).map(|run| run.seq).chain(first).collect()
}

fn of(
    ws: &Workspace,
    outcome: &Outcome,
    event: Option<EventId>,
    data: Value,
    arrives: bool,
) -> Told {
    let holder = match &outcome.verdict {
        Verdict::Skipped { holder, .. } => Some(*holder),
        _ => None,
    };
    Told {
        ws: ws.clone(),
        workflow: outcome.workflow.clone(),
        word: outcome.verdict.outcome().to_owned(),
        run: outcome.verdict.run(),
        holder,
        event,
        data,
        arrives,
    }
}

fn called_with(request: &Request) -> Value {
    serde_json::json!({ "session": request.session, "input": json(&request.input) })
}

/// Returns the inputs that a commit of a single call wrote, in order.
fn inputs(look: &Look<'_>) -> impl Iterator<Item = EventId> {
    let mut ids: Vec<EventId> = look
        .deltas
        .iter()
        .filter_map(|delta| match &delta.after {
            Some(Row::Event(event)) if delta.before.is_none() => Some(event.id),
            _ => None,
        })
        .collect();
    ids.sort_by_key(|id| id.seq);
    ids.into_iter()
}

/// Returns the verdicts on an event that a step sent, from the record of the step.
fn sent(look: &Look<'_>, ws: &Workspace, run: Seq, send: &NewSend) -> Vec<Told> {
    let key = RowKey::Step(run, send.step.clone());
    let new = look.deltas.iter().any(|delta| delta.key == key && delta.before.is_none());
    let Some(Row::Step(step)) = look.state.row(&key).filter(|_| new) else { return Vec::new() };
    let Ok(result) = &step.result else { return Vec::new() };
    if step.kind != StepKind::Send {
        return Vec::new();
    }
    let answer = json(result);
    let id = |value: &Value| value.as_str().map(str::to_owned);
    let told = answer["runs"].as_array().into_iter().flatten().map(|one| Told {
        ws: ws.clone(),
        workflow: id(&one["workflow"]).unwrap_or_default(),
        word: id(&one["outcome"]).unwrap_or_default(),
        run: id(&one["runId"]).and_then(|run| run.parse().ok()),
        holder: id(&one["holder"]).and_then(|run| run.parse().ok()),
        event: id(&answer["id"]).and_then(|event| event.parse().ok()),
        data: send.what.data().map(json).unwrap_or_default(),
        arrives: true,
    });
    told.collect()
}

fn json(data: &Payload) -> Value {
    serde_json::from_str(data.as_str()).expect("data is JSON")
}
