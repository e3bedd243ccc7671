//! Replay of a run that has ended, and retry from a step (spec replay, A5).
//!
//! Gates, throttle and handoff of the current release apply to the new run. A replay executes the
//! current version from the start, with its own effect keys. A retry from a step keeps the steps
//! that were recorded before this step, and their effect keys. It has the version that recorded
//! them, because another version may use the step ids for other steps.

use super::follow_up::follower;
use crate::{
    catalog::{Current, Entry},
    command::Refusal,
    definition::nearest::{list, nearest},
    draft::{Decided, Draft, Stop},
    event::Outcome,
    flow::{
        admit::create,
        plan::{Candidate, Origin, ReplayOf, Results},
        pool, receipts,
        verdict::Verdict,
    },
    id::{RunId, Seq},
    json::Payload,
    key::Key,
    reads::Scan,
    request::with_input,
    row::{
        Ended, Ending, Event, Kind, Purpose, Row, RowKey, Run, Source, Step, StepKind, Workspace,
    },
    schedule,
};

/// Number of steps of a run that are read at first.
const STEPS_READ: u32 = 64;

/// Maximum number of steps that the refusal of an unknown step lists.
const STEPS_NAMED: usize = 10;

/// What a replay changes compared with the original run.
#[derive(Clone, Copy, Debug)]
pub struct ReplayRequest<'a> {
    /// The new input; none means the same input.
    pub input: &'a Option<Payload>,
    /// The first step to execute again; none means that no step is kept.
    pub from_step: &'a Option<String>,
    /// The result of the policy's key function for the input, if the policy has one.
    pub function_key: &'a Option<Key>,
}

/// Creates a new run from one that has ended.
pub fn replay(
    draft: &mut Draft,
    ws: &Workspace,
    id: RunId,
    go: ReplayRequest<'_>,
) -> Decided<Outcome> {
    let old = ended(draft, ws, id)?;
    let steps = match go.from_step {
        Some(step) => steps_before(draft, &old, step)?,
        None => Vec::new(),
    };
    let effects = go.from_step.as_ref().map(|_| old.effects());
    let outcome = if old.purpose == Purpose::Ordinary {
        let compensations = steps.iter().filter(|step| step.kind == StepKind::Compensate).count();
        let compensations = u32::try_from(compensations).unwrap_or(u32::MAX);
        admit(draft, &old, go, ReplayOf { of: id, effects, batch: None, compensations })?
    } else {
        follow_again(draft, &old, go, effects)?
    };
    if let Some(run) = outcome.verdict.run() {
        for step in steps {
            let seq = draft.next_seq()?;
            draft.put(Step { run: run.seq, fence: 0, seq, ..step });
        }
    }
    Ok(outcome)
}

/// Returns the ended run; a refusal if it has not ended or does not exist.
fn ended(draft: &Draft, ws: &Workspace, id: RunId) -> Decided<Ended> {
    if let Some(Row::Ended(ended)) = draft.row(&RowKey::Ended(id.seq))?
        && ended.id == id
        && ended.ws == *ws
    {
        return Ok(ended.clone());
    }
    let live = draft.run(id.seq)?.is_some_and(|run| run.id == id && run.ws == *ws);
    Err(Stop::Refused(if live { Refusal::NotEnded(id) } else { Refusal::NoRun(id) }))
}

/// Returns the steps whose results the code received before the step `from`, in this order.
fn steps_before(draft: &Draft, old: &Ended, from: &str) -> Decided<Vec<Step>> {
    let run = old.id.seq;
    let [first, last] =
        [run, Seq(run.0.saturating_add(1))].map(|run| RowKey::Step(run, String::new()));
    let rows = draft.found_all(&Scan::Steps(run), STEPS_READ)?;
    let rows = rows.into_iter().chain(draft.written(first, last));
    let step = |row: &Row| if let Row::Step(step) = row { Some(step.clone()) } else { None };
    let mut steps: Vec<Step> = rows.filter_map(step).filter(|step| step.run == run).collect();
    steps.sort_by(|a, b| (a.seq, &a.id).cmp(&(b.seq, &b.id)));
    steps.dedup_by(|a, b| a.id == b.id);
    Step::sort(&mut steps);
    let Some(at) = steps.iter().position(|step| step.id == from) else {
        let (run, step, hint) = (old.id, from.to_owned(), hint(from, &steps));
        return Err(Stop::Refused(Refusal::NoStep { run, step, hint }));
    };
    steps.truncate(at);
    // The new run has reservations of its own, which it settles.
    steps.retain(|step| step.kind != StepKind::Settle);
    if matches!(old.ending, Ending::Completed { .. }) {
        return Ok(steps);
    }
    // Session operations that the run had staged were dropped at its end, so their steps are not
    // kept: they are executed again.
    let staged = draft.catalog(&old.ws)?.restarts(old.lane) || schedule::was_restarted(draft, old)?;
    steps.retain(|step| !staged || step.kind != StepKind::State);
    if let Some(undo) = steps.iter().find(|step| step.kind == StepKind::Compensate) {
        let (run, step, first) = (old.id, from.to_owned(), undo.id.clone());
        return Err(Stop::Refused(Refusal::Undone { run, step, first }));
    }
    Ok(steps)
}

/// Returns the hint in the refusal of an unknown step: a similar step, or the recorded steps.
fn hint(unknown: &str, steps: &[Step]) -> String {
    let ids: Vec<&str> = steps.iter().map(|step| step.id.as_str()).collect();
    match nearest(unknown, &ids) {
        Some(near) => format!("did you mean `{near}`?"),
        None if ids.is_empty() => "it has recorded none, replay it from its start".to_owned(),
        None => format!("the last were {}", list(&ids[ids.len().saturating_sub(STEPS_NAMED)..])),
    }
}

/// Admits the new run.
fn admit(
    draft: &mut Draft,
    old: &Ended,
    go: ReplayRequest<'_>,
    mut again: ReplayOf,
) -> Decided<Outcome> {
    let catalog = draft.catalog(&old.ws)?;
    let current = catalog.entry(&old.app, &old.workflow).and_then(Entry::open).cloned();
    let Some(mut current) = current else {
        let (app, name) = (old.app.clone(), old.workflow.clone());
        return Err(Stop::Refused(Refusal::NoWorkflow { app, name }));
    };
    if let Some(version) = catalog.lane(old.lane).filter(|_| again.effects.is_some()) {
        current = Current { version: version.clone(), ..current };
    }
    let (event, source) = input(draft, old, go)?;
    again.batch = matches!(source, Source::Batch(_)).then(|| old.batch());
    let candidate = Candidate {
        ws: old.ws.clone(),
        current: &current,
        event: &event,
        origin: Origin::Replay(again),
        parent: None,
        function_key: go.function_key.clone(),
        batch: old.batch_costs.clone().filter(|_| matches!(source, Source::Batch(_))),
        pools: pool::of(draft, &old.ws, &current.workflow)?,
        results: Results::default(),
    };
    let verdict = match draft.keep_or_undo(|draft| create(draft, &candidate, None, source)) {
        Ok(verdict) | Err(Stop::Refused(verdict)) => verdict,
        Err(Stop::Need(reads)) => return Err(Stop::Need(reads)),
        Err(Stop::Full) => return Err(Stop::Full),
    };
    receipts::write(draft, &candidate, &verdict)?;
    let key_missing = candidate.keys_missing();
    let (app, workflow) = (old.app.clone(), old.workflow.clone());
    Ok(Outcome { app, workflow, version: current.version.number, verdict, key_missing })
}

/// Returns the new run's input. A new input is always one event, even if the old run had a batch.
/// For an action, the session, user and metadata of the old request are kept.
fn input(draft: &mut Draft, old: &Ended, go: ReplayRequest<'_>) -> Decided<(Event, Source)> {
    let Some(event) = draft.event(old.source.first())?.cloned() else {
        return Err(Stop::Refused(Refusal::InputGone(old.id)));
    };
    let Some(input) = go.input else { return Ok((event, old.source)) };
    let catalog = draft.catalog(&old.ws)?;
    let is_action = catalog.definition(old.lane).is_some_and(|workflow| workflow.flow.is_some());
    let data = match event.kind {
        Kind::Request => with_input(&event.data, input),
        Kind::Cron if is_action => with_input(&event.data, input),
        Kind::Event | Kind::Cron | Kind::Invoke => input.clone(),
    };
    let (id, at) = (draft.new_event_id()?, draft.now());
    let event = Event { id, at, ts: None, data, delivery: None, ..event };
    draft.put(event.clone());
    Ok((event, Source::Event(id)))
}

/// Replays a follow-up run: for the same original run, without gates, with the same version.
fn follow_again(
    draft: &mut Draft,
    old: &Ended,
    go: ReplayRequest<'_>,
    effect_run: Option<RunId>,
) -> Decided<Outcome> {
    if go.input.is_some() {
        return Err(Stop::Refused(Refusal::InputFixed(old.id)));
    }
    let run = follower(draft, old, old.purpose)?;
    let (app, workflow, version) = (old.app.clone(), old.workflow.clone(), old.version);
    let (verdict, key_missing) = (Verdict::Started { run: run.id }, Vec::new());
    draft.put(Run { replay_of: Some(old.id), effect_run, ..run });
    Ok(Outcome { app, workflow, version, verdict, key_missing })
}
