//! Folds: a window that keeps the last event, or a buffer that keeps all events.
//!
//! The state of a fold is one row, so that joining and flushing are one transaction each. The run's
//! id is chosen when the fold opens, and the row has the run's number: so the fold is found by the
//! id of a run that does not exist yet. An event that arrives after the deadline does not join the
//! fold, even if the flush is late: the old fold is flushed first.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    Control,
    admit::{create, too_costly},
    batch, claim, control,
    cost::Cost,
    gate, idempotency,
    plan::{Candidate, Origin},
    policy,
    verdict::{By, Verdict},
};
use crate::{
    catalog::Current,
    draft::{Decided, Draft, Missing, Stop},
    id::{EventId, RunId},
    key::Key,
    reads::Scan,
    row::{
        BatchCosts, Class, Costs, Fold, Gate, GateKey, GateState, Item, Part, Phase, Row, RowKey,
        Run, Scope, Source, Workspace,
    },
    run::{end, wait},
    time::Timestamp,
};

/// Interval at which the sweep checks a fired window whose run has not started.
const RECHECK_MS: u64 = 60_000;

/// Maximum number of runs that a window's run waits for before it starts. One conversation does
/// not have more messages in progress at a time.
const MAX_AFTER: usize = 32;

/// Size of the first read of a batch's items.
const ITEMS_READ: u32 = 64;

/// Maximum number of claims that are released in one transaction; each claim is a row.
const GIVEN_BACK_AT_ONCE: usize = 1000;

/// Number of open buffers of a workspace that are read first to find the buffer of an earlier
/// part. If it is not among them, more are read: a caller may have the id of the part's run.
const FOLDS_READ: u32 = 1000;

impl Fold {
    /// Whether the fold is not flushed even if it is due or full, because it is held or paused.
    fn stays(&self) -> bool {
        self.held || self.paused
    }

    /// Whether the fold will create this run.
    pub(crate) fn carries(&self, id: RunId) -> bool {
        self.run == id || self.full.iter().any(|part| part.run == id)
    }
}

/// Fold settings of a control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Folding {
    /// Keeps the last event; each event moves the deadline.
    Last { period_ms: u64, max_wait_ms: Option<u64> },
    /// Keeps all events; the first one sets the deadline.
    All { max_size: u32, timeout_ms: u64, max_bytes: u64 },
}

impl Folding {
    /// Returns how long a window stays open after each event, or a buffer after its first event.
    fn wait_ms(self) -> u64 {
        match self {
            Self::Last { period_ms, .. } => period_ms,
            Self::All { timeout_ms, .. } => timeout_ms,
        }
    }
}

/// Returns the fold of one control for this input; none if the definition does not use it.
fn of_control(
    candidate: &Candidate<'_>,
    control: &Control,
) -> Decided<Option<(Scope, Folding)>, Verdict> {
    let definition = candidate.workflow();
    let Some(folding) = (control.folding)(definition) else { return Ok(None) };
    let scope = if control.classes.contains(&Class::Quiet) {
        policy::scope(candidate, Class::Quiet)?.map(|(scope, _)| scope)
    } else {
        let key = (control.keys)(definition).first().copied().flatten();
        Some(candidate.scope(control.classes[0], key)?)
    };
    Ok(scope.map(|scope| (scope, folding)))
}

/// Returns the first fold that applies to an arrival, if its workflow has any.
fn first(candidate: &Candidate<'_>) -> Decided<Option<(Scope, Folding)>, Verdict> {
    for control in control::all() {
        if let Some(fold) = of_control(candidate, control)? {
            return Ok(Some(fold));
        }
    }
    Ok(None)
}

/// Joins an open window or buffer. Spends no token of the rate limit.
pub fn join(draft: &mut Draft, candidate: &Candidate<'_>) -> Decided<Option<Verdict>, Verdict> {
    match first(candidate)? {
        Some((scope, kind)) => join_one(draft, candidate, &scope, kind),
        None => Ok(None),
    }
}

/// Opens the window or buffer of the workflow, if it has one.
pub fn open(draft: &mut Draft, candidate: &Candidate<'_>) -> Decided<Option<Verdict>, Verdict> {
    match first(candidate)? {
        Some((scope, kind)) => open_one(draft, candidate, &scope, kind, None).map(Some),
        None => Ok(None),
    }
}

fn join_one(
    draft: &mut Draft,
    candidate: &Candidate<'_>,
    scope: &Scope,
    kind: Folding,
) -> Decided<Option<Verdict>, Verdict> {
    let key = GateKey::new(scope);
    let Some((gate, fold)) = load(draft, &key)? else { return Ok(None) };
    if fold.fired {
        return join_fired(draft, candidate, scope, gate, fold);
    }
    let overdue = fold.deadline <= draft.now();
    if !fold.stays() && (overdue || !fits(draft, candidate, kind, &fold)?) {
        flush(draft, &key)?;
        return match load(draft, &key)? {
            None => Ok(None),
            // The fold still exists: its flush was refused, or its run waits to start. So the event
            // joins it.
            Some((gate, fold)) if fold.fired => join_fired(draft, candidate, scope, gate, fold),
            Some((gate, fold)) => add(draft, candidate, scope, kind, gate, fold).map(Some),
        };
    }
    add(draft, candidate, scope, kind, gate, fold).map(Some)
}

/// Joins a window that has fired and whose run has not started yet: the new event becomes the
/// input of the run.
fn join_fired(
    draft: &mut Draft,
    candidate: &Candidate<'_>,
    scope: &Scope,
    mut gate: Gate,
    mut fold: Fold,
) -> Decided<Option<Verdict>, Verdict> {
    let now = draft.now();
    let joins = |run: &&Run| !run.started && !run.is_expired(now);
    let Some(mut run) = draft.run(fold.run.seq)?.filter(joins).cloned() else {
        draft.delete(RowKey::Gate(gate.key));
        return Ok(None);
    };
    if let Some(claim) = run.claim.take() {
        claim::give_back(draft, &claim, run.id)?;
    }
    run.claim = idempotency::take(draft, candidate, run.id)?;
    run.source = Source::Event(candidate.event);
    // Gates that the run has not entered yet count the newer event.
    for need in run.plan.iter_mut().skip(run.entered) {
        let step = candidate.plan()?.iter().find(|step| step.planned.gate == need.gate);
        need.costs = step.map_or_else(Costs::default, |step| step.planned.costs.clone());
    }
    if run.is_after() || !candidate.after().is_empty() {
        run.wanted |= candidate.is_wanted() || !run.is_after();
        wait::start_after(draft, &mut run, candidate.after())?;
    }
    if run.is_after() && matches!(run.phase, Phase::Queued { .. } | Phase::Ready) {
        gate::hold_back(draft, &mut run)?;
    }
    draft.put(run);
    fold.last = candidate.event;
    fold.count += 1;
    let (run, fire_at) = (fold.run, fold.deadline);
    gate.state = GateState::Fold(fold);
    draft.put(gate);
    Ok(Some(Verdict::Coalesced { run, by: By::scope(scope), fire_at }))
}

/// Opens a window or buffer for `run`, or for a new run.
fn open_one(
    draft: &mut Draft,
    candidate: &Candidate<'_>,
    scope: &Scope,
    kind: Folding,
    run: Option<RunId>,
) -> Decided<Verdict, Verdict> {
    let now = draft.now();
    let deadline = now.plus_ms(kind.wait_ms());
    let fold = Fold {
        run: run.map_or_else(|| draft.new_run_id(), Ok)?,
        first: candidate.event,
        last: candidate.event,
        after: Vec::new(),
        opened: now,
        deadline,
        count: 0,
        bytes: 0,
        costs: BTreeMap::new(),
        full: Vec::new(),
        held: false,
        paused: false,
        fired: false,
    };
    let (key, id) = (GateKey::new(scope), fold.run.seq);
    let gate = Gate { key, id, at: now, due: Some(deadline), state: GateState::Fold(fold.clone()) };
    add(draft, candidate, scope, kind, gate, fold)
}

/// Adds one event to an open fold.
fn add(
    draft: &mut Draft,
    candidate: &Candidate<'_>,
    scope: &Scope,
    kind: Folding,
    mut gate: Gate,
    mut fold: Fold,
) -> Decided<Verdict, Verdict> {
    let by = By::scope(scope);
    gate.at = gate.at.max(draft.now());
    // An older build may have opened the fold with another number.
    gate.id = fold.run.seq;
    fold.last = candidate.event;
    go_after(draft, &mut fold, candidate.after())?;
    match kind {
        Folding::Last { period_ms, max_wait_ms } => {
            fold.count += 1;
            let quiet = draft.now().plus_ms(period_ms);
            fold.deadline = max_wait_ms.map_or(quiet, |max| quiet.min(fold.opened.plus_ms(max)));
            // The due time never moves later here, so that a burst does not update the index of due
            // rows with every event. The sweep finds the row early and moves the due time.
            gate.due = gate.due.map(|due| due.min(fold.deadline));
            let (run, fire_at) = (fold.run, fold.deadline);
            gate.state = GateState::Fold(fold);
            draft.put(gate);
            Ok(Verdict::Coalesced { run, by, fire_at })
        }
        Folding::All { max_size, max_bytes, .. } => {
            if !fits(draft, candidate, kind, &fold)? {
                part(draft, &mut fold)?;
                gate.id = fold.run.seq;
            }
            if fold.count == 0 {
                fold.first = candidate.event;
            }
            let (run, key) = (fold.run, gate.key.clone());
            idempotency::take(draft, candidate, run)?;
            draft.put(Item { run: run.seq, n: fold.count, event: candidate.event });
            let BatchCosts { events, at } = sums(candidate, &fold)?;
            (fold.count, fold.costs) = (events, at);
            fold.bytes += size(candidate);
            let (pending, flush_at) = (fold.count, fold.deadline);
            let full = fold.count >= max_size || fold.bytes >= max_bytes;
            let stays = fold.stays();
            gate.state = GateState::Fold(fold);
            draft.put(gate);
            let flushed = if full && !stays { flush(draft, &key)? } else { None };
            Ok(flushed.unwrap_or(Verdict::Buffered { run, by, pending, flush_at }))
        }
    }
}

/// Makes the window's run start after the runs `before`. If there are more than [`MAX_AFTER`],
/// ended runs are removed, then the oldest.
fn go_after<E>(draft: &Draft, fold: &mut Fold, before: &[RunId]) -> Decided<(), E> {
    fold.after.extend(before);
    if fold.after.len() > MAX_AFTER {
        let mut live = Vec::new();
        for id in &fold.after {
            if wait::completed(draft, *id)?.is_none() {
                live.push(*id);
            }
        }
        fold.after = live.split_off(live.len().saturating_sub(MAX_AFTER));
    }
    Ok(())
}

/// Closes a part of a buffer that became full while the buffer was held or paused, and begins the
/// next part.
fn part<E>(draft: &mut Draft, fold: &mut Fold) -> Decided<(), E> {
    let costs = std::mem::take(&mut fold.costs);
    fold.full.push(Part { run: fold.run, first: fold.first, count: fold.count, costs });
    fold.run = draft.new_run_id()?;
    (fold.count, fold.bytes) = (0, 0);
    Ok(())
}

/// Flushes a fold: creates the runs of its events. If a gate would skip the run, the fold stays
/// open and is held until the gate is free.
pub fn flush<E>(draft: &mut Draft, key: &GateKey) -> Decided<Option<Verdict>, E> {
    let mut last = None;
    while let Some((gate, mut fold)) = load(draft, key)? {
        let Some(part) = fold.full.first().cloned().or_else(|| whole(&fold)) else {
            draft.delete(RowKey::Gate(gate.key));
            break;
        };
        match flush_part(draft, &gate, &fold, &part)? {
            Flushed::Run(verdict) => last = Some(verdict),
            Flushed::Gone => {}
            Flushed::Held(by) => {
                hold(draft, gate, fold, &by.gate)?;
                return Ok(last);
            }
        }
        if !fold.full.is_empty() {
            fold.full.remove(0);
            draft.put(Gate { state: GateState::Fold(fold), ..gate });
            continue;
        }
        // The new run may be queued until the run that it replaced has stopped. Until it starts,
        // further events can join it.
        let is_queued = |run: &Run| matches!(run.phase, Phase::Queued { .. });
        if gate.key.class() == Some(Class::Quiet) && draft.run(fold.run.seq)?.is_some_and(is_queued)
        {
            let fold = Fold { fired: true, held: false, ..fold };
            let due = Some(draft.now().plus_ms(RECHECK_MS));
            draft.put(Gate { due, state: GateState::Fold(fold), ..gate });
        } else {
            draft.delete(RowKey::Gate(gate.key));
        }
        break;
    }
    Ok(last)
}

fn whole(fold: &Fold) -> Option<Part> {
    let costs = fold.costs.clone();
    let part = Part { run: fold.run, first: fold.first, count: fold.count, costs };
    (fold.count > 0).then_some(part)
}

/// Result of a flush.
enum Flushed {
    /// The run was created, or its event joined the next fold.
    Run(Verdict),
    /// No run was created: it was deduped or rejected, and ended before its start.
    Gone,
    /// A holder of this gate blocks the flush.
    Held(By),
}

fn flush_part<E>(draft: &mut Draft, gate: &Gate, fold: &Fold, part: &Part) -> Decided<Flushed, E> {
    let Some(scope) = gate.key.scope() else { return Ok(Flushed::Gone) };
    let batch = scope.class == Class::Batch;
    let event = if batch { part.first } else { fold.last };
    let catalog = draft.catalog(&scope.ws)?;
    let current = catalog.entry(&scope.app, &scope.name).and_then(|entry| entry.current.as_ref());
    let source = if batch { Source::Batch(event) } else { Source::Event(event) };
    let (Some(event), Some(current)) = (draft.event(event)?.cloned(), current) else {
        let reason = "its event or its workflow is gone";
        end::end_unstarted(draft, scope, current, (part.run, source), reason);
        return Ok(Flushed::Gone);
    };
    let origin = match fold.after.len() {
        0 => Origin::Arrival,
        n => Origin::After { runs: fold.after.clone(), wanted: fold.count as usize > n },
    };
    let mut candidate = candidate(&scope, current, event.id, event.data, origin);
    candidate.batch = batch.then(|| BatchCosts { events: part.count, at: part.costs.clone() });
    let outcome = draft.keep_or_undo(|draft| {
        if !batch && let Some((scope, kind)) = of_control(&candidate, &batch::CONTROL)? {
            // If the workflow also has `batch`, the event of a fired window goes into a buffer.
            return match join_one(draft, &candidate, &scope, kind)? {
                Some(verdict) => Ok(verdict),
                None => open_one(draft, &candidate, &scope, kind, Some(part.run)),
            };
        }
        create(draft, &candidate, Some(part.run), source)
    });
    let (verdict, flushed) = match outcome {
        Ok(verdict) => (verdict.clone(), Flushed::Run(verdict)),
        Err(Stop::Refused(Verdict::Skipped { by, .. })) => return Ok(Flushed::Held(by)),
        Err(Stop::Refused(verdict)) => (verdict, Flushed::Gone),
        Err(Stop::Need(reads)) => return Err(Stop::Need(reads)),
        Err(Stop::Full) => return Err(Stop::Full),
    };
    super::receipts::write(draft, &candidate, &verdict)?;
    // Senders already have the id of this run. If another run or none has the event as its input,
    // an ended run with this id is written.
    if verdict.run() != Some(part.run) {
        if batch && matches!(flushed, Flushed::Gone) {
            give_claims_back(draft, &scope, current, part)?;
        }
        end::cancel_unstarted(draft, &candidate, (part.run, source), &verdict);
    }
    Ok(flushed)
}

/// Releases the idempotency claims that a buffer's events took when they joined. Their run will not
/// exist, so later events with the same keys are not repeats.
fn give_claims_back<E>(
    draft: &mut Draft,
    scope: &Scope,
    current: &Current,
    part: &Part,
) -> Decided<(), E> {
    let items = draft.found(&Scan::Items(part.run.seq), part.count)?;
    let events = items.into_iter().filter_map(Row::as_item).map(|item| item.event).collect();
    for key in claims_of(draft, scope, current, part.run, events)? {
        claim::give_back(draft, &key, part.run)?;
    }
    Ok(())
}

/// Releases at most `GIVEN_BACK_AT_ONCE` idempotency claims of a batch that has not started.
/// Returns `false` if some are left.
pub fn give_back_some<E>(draft: &mut Draft, run: &Run) -> Decided<bool, E> {
    let catalog = draft.catalog(&run.ws)?;
    let entry = catalog.entry(&run.app, &run.workflow);
    let Some(current) = entry.and_then(|entry| entry.current.as_ref()) else { return Ok(true) };
    let (ws, app, name) = (run.ws.clone(), run.app.clone(), run.workflow.clone());
    let scope = Scope { ws, class: Class::Batch, app, name, slot: String::new(), key: Key::Whole };
    let claims = claims_of(draft, &scope, current, run.id, events(draft, run)?)?;
    for key in claims.iter().take(GIVEN_BACK_AT_ONCE) {
        claim::give_back(draft, key, run.id)?;
    }
    Ok(claims.len() <= GIVEN_BACK_AT_ONCE)
}

/// Returns the events of a run's input, in order.
pub(crate) fn events<E>(draft: &Draft, run: &Run) -> Decided<Vec<EventId>, E> {
    match run.source {
        Source::Event(event) => Ok(vec![event]),
        Source::Batch(_) => {
            let rows = draft.found_all(&Scan::Items(run.batch().seq), ITEMS_READ)?;
            let mut items: Vec<&Item> = rows.into_iter().filter_map(Row::as_item).collect();
            items.sort_by_key(|item| item.n);
            Ok(items.into_iter().map(|item| item.event).collect())
        }
    }
}

/// Returns the idempotency claims that a run has for these events.
fn claims_of<E>(
    draft: &Draft,
    scope: &Scope,
    current: &Current,
    run: RunId,
    events: Vec<EventId>,
) -> Decided<BTreeSet<GateKey>, E> {
    let Some(idempotency) = &current.workflow.idempotency else { return Ok(BTreeSet::new()) };
    let (mut missing, mut keys) = (Missing::default(), BTreeSet::new());
    for event in events {
        if let Some(Some(event)) = missing.note(draft.event(event))? {
            let candidate =
                candidate(scope, current, event.id, event.data.clone(), Origin::Arrival);
            let claimed = candidate.scope(Class::Idempotency, idempotency.key.as_ref());
            keys.extend(claimed.ok().map(|scope| GateKey::new(&scope)));
        }
    }
    let mut claims = BTreeSet::new();
    for key in keys {
        let claim = missing.note(claim::held(draft, &key))?.flatten();
        if claim.is_some_and(|claim| claim.run == Some(run)) {
            claims.insert(key);
        }
    }
    missing.settle()?;
    Ok(claims)
}

fn candidate<'a>(
    scope: &Scope,
    current: &'a Current,
    event: EventId,
    data: crate::json::Payload,
    origin: Origin,
) -> Candidate<'a> {
    let by_function = scope.class == Class::Quiet && scope.slot.starts_with("function:");
    let function_key = Some(if by_function { scope.key.clone() } else { Key::Missing });
    Candidate {
        ws: scope.ws.clone(),
        current,
        event,
        data,
        origin,
        parent: None,
        function_key,
        batch: None,
        steps: OnceCell::new(),
    }
}

/// Holds a fold: it stays open until the gate that blocks it is released.
fn hold<E>(draft: &mut Draft, gate: Gate, mut fold: Fold, by: &GateKey) -> Decided<(), E> {
    if let Some(row) = draft.gate(by)? {
        let mut row = row.clone();
        if let GateState::Slots(slots) = &mut row.state
            && !slots.folds.contains(&gate.key)
        {
            slots.folds.push(gate.key.clone());
        }
        draft.put(row);
    }
    fold.held = true;
    draft.put(Gate { due: None, state: GateState::Fold(fold), ..gate });
    Ok(())
}

/// Processes a fold in the sweep: flushes it if its deadline has passed, and otherwise sets its due
/// time.
pub fn sweep<E>(draft: &mut Draft, gate: Gate, fold: Fold) -> Decided<(), E> {
    let now = draft.now();
    if fold.fired {
        let waits = draft.run(fold.run.seq)?.is_some_and(|run| !run.started);
        if waits {
            draft.put(Gate { due: Some(now.plus_ms(RECHECK_MS)), ..gate });
        } else {
            draft.delete(RowKey::Gate(gate.key));
        }
    } else if fold.stays() {
        draft.put(Gate { due: None, ..gate });
    } else {
        let (opened, deadline) = match longest(draft, &gate)? {
            Some(ms) if gate.at > now => (fold.opened.min(now), fold.deadline.capped(now, ms)),
            _ => (fold.opened, fold.deadline),
        };
        if deadline <= now {
            flush(draft, &gate.key)?;
        } else {
            let state = GateState::Fold(Fold { opened, deadline, ..fold });
            draft.put(Gate { due: Some(deadline), state, ..gate });
        }
    }
    Ok(())
}

/// Returns how long a fold stays open after an event, in milliseconds; none if the current release
/// does not have the fold's control.
fn longest<E>(draft: &Draft, gate: &Gate) -> Decided<Option<u64>, E> {
    let Some(scope) = gate.key.scope() else { return Ok(None) };
    let catalog = draft.catalog(&scope.ws)?;
    let entry = catalog.entry(&scope.app, &scope.name);
    let Some(current) = entry.and_then(|entry| entry.current.as_ref()) else { return Ok(None) };
    let folding = (control::owner(scope.class).folding)(&current.workflow);
    Ok(folding.map(Folding::wait_ms))
}

/// Retries the flush of a held fold, after the gate that blocked it was released.
pub fn retry<E>(draft: &mut Draft, key: &GateKey) -> Decided<(), E> {
    if let Some((_, fold)) = load(draft, key)?
        && fold.held
        && !fold.paused
    {
        flush(draft, key)?;
    }
    Ok(())
}

/// Finds the window or buffer that will create a run. An unknown id costs only two reads of absent
/// rows, because ids come from outside.
pub fn of_run<'a>(draft: &'a Draft, ws: &Workspace, id: RunId) -> Decided<Option<&'a Gate>> {
    let mut missing = Missing::default();
    let window = missing.note(draft.found(&Scan::Window(id.seq), 1))?;
    let item = missing.note(draft.row(&RowKey::Item(id.seq, 0)))?.flatten();
    missing.settle()?;
    let promised = |row: &'a Row| {
        let gate = row.as_gate().filter(|gate| gate.key.is_of(ws))?;
        let GateState::Fold(fold) = &gate.state else { return None };
        fold.carries(id).then_some(gate)
    };
    let window = window.into_iter().flatten().find_map(promised);
    if window.is_some() || item.is_none() {
        return Ok(window);
    }
    // The run belongs to an earlier part of a held buffer, or to a buffer that an older build
    // opened.
    let scan = Scan::Gates(GateKey::class_prefix(ws, Class::Batch));
    Ok(draft.found_all(&scan, FOLDS_READ)?.into_iter().find_map(promised))
}

/// Cancels the run that a window or buffer will create; its events get no other run. Returns
/// `false` if the run exists already.
pub fn cancel(draft: &mut Draft, key: &GateKey, id: RunId, reason: &str) -> Decided<bool> {
    let Some((mut gate, mut fold)) = load(draft, key)? else { return Ok(false) };
    let part = fold.full.iter().find(|part| part.run == id).cloned();
    let part = part.or_else(|| whole(&fold).filter(|part| part.run == id));
    let (Some(part), Some(scope)) = (part.filter(|_| !fold.fired), key.scope()) else {
        return Ok(false);
    };
    let catalog = draft.catalog(&scope.ws)?;
    let current = catalog.entry(&scope.app, &scope.name).and_then(|entry| entry.current.as_ref());
    let source = if scope.class == Class::Batch {
        if let Some(current) = current {
            give_claims_back(draft, &scope, current, &part)?;
        }
        Source::Batch(part.first)
    } else {
        Source::Event(fold.last)
    };
    end::end_unstarted(draft, scope, current, (id, source), reason);
    fold.full.retain(|part| part.run != id);
    if fold.run == id {
        if fold.full.is_empty() {
            draft.delete(RowKey::Gate(gate.key));
            return Ok(true);
        }
        (fold.run, fold.count, fold.bytes) = (draft.new_run_id()?, 0, 0);
        fold.costs.clear();
        gate.id = fold.run.seq;
    }
    draft.put(Gate { state: GateState::Fold(fold), ..gate });
    Ok(true)
}

/// Pauses or resumes the window or buffer of a run that does not exist yet. A resumed fold that is
/// due is flushed at once. Returns `false` if the run exists already.
pub fn pause(draft: &mut Draft, key: &GateKey, id: RunId, paused: bool) -> Decided<bool> {
    let Some((gate, fold)) = load(draft, key)? else { return Ok(false) };
    if fold.fired || !fold.carries(id) {
        return Ok(false);
    }
    // The gate that held the fold may have been released while the fold was paused.
    let due_now = fold.held || !fold.full.is_empty() || fold.deadline <= draft.now();
    let (at, waits) = (Some(fold.deadline), paused || fold.held);
    let fold = Fold { paused, ..fold };
    draft.put(Gate { due: at.filter(|_| !waits), state: GateState::Fold(fold), ..gate });
    if !paused && due_now {
        flush(draft, key)?;
    }
    Ok(true)
}

fn load<E>(draft: &Draft, key: &GateKey) -> Decided<Option<(Gate, Fold)>, E> {
    Ok(match draft.gate(key)? {
        Some(gate) => match &gate.state {
            GateState::Fold(fold) => Some((gate.clone(), fold.clone())),
            GateState::Slots(_)
            | GateState::Meter(_)
            | GateState::Turns(_)
            | GateState::Claim(_) => None,
        },
        None => None,
    })
}

/// Whether a fold has room for one more event. An empty fold takes an event of any size.
fn fits(
    draft: &Draft,
    candidate: &Candidate<'_>,
    kind: Folding,
    fold: &Fold,
) -> Decided<bool, Verdict> {
    let Folding::All { max_size, max_bytes, .. } = kind else { return Ok(true) };
    if fold.count == 0 {
        return Ok(true);
    }
    if fold.count >= max_size || fold.bytes + size(candidate) > max_bytes {
        return Ok(false);
    }
    if control::costs(candidate.workflow()).next().is_none() {
        return Ok(true);
    }
    let (batch, steps) = (Some(sums(candidate, fold)?), OnceCell::new());
    let together = Candidate { batch, steps, ..candidate.clone() };
    Ok(too_costly(draft, &together)?.is_none())
}

/// Returns the sums of the costs of a buffer's events and of one more.
fn sums(candidate: &Candidate<'_>, fold: &Fold) -> Decided<BatchCosts, Verdict> {
    let mut sums = BatchCosts { events: fold.count + 1, at: BTreeMap::new() };
    for (control, cost) in control::costs(candidate.workflow()) {
        if let Cost::From(path) = cost {
            let path = path.to_string();
            let before = fold.costs.get(&path).copied().unwrap_or(fold.count);
            let units = candidate.cost(control.name, Some(cost))?;
            sums.at.insert(path, before.saturating_add(units));
        }
    }
    Ok(sums)
}

fn size(candidate: &Candidate<'_>) -> u64 {
    candidate.data.as_str().len() as u64
}

/// Returns the run that a fold will create, and when it will be created if no further event
/// arrives; for `/flow-state` and `why`.
pub fn due(fold: &Fold) -> (RunId, Timestamp) {
    (fold.run, fold.deadline)
}
