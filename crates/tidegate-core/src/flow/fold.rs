//! Folds: a window that keeps the last event, or a buffer that keeps all events.
//!
//! The state of a fold is one row, so that joining and flushing are one transaction each. The run's
//! id is chosen when the fold opens, and the row has the run's number: so the fold is found by the
//! id of a run that does not exist yet. An event that arrives after the deadline does not join the
//! fold, even if the flush is late: the old fold is flushed first.

mod claims;
mod flush;
mod promised;

use std::collections::BTreeMap;

use super::{
    Control,
    admit::{check, create, too_costly},
    batch, claim, control,
    cost::Cost,
    debounce::Edge,
    gate, idempotency,
    plan::{Candidate, GateStep, Results},
    policy,
    verdict::{By, Verdict},
};
use crate::{
    draft::{Decided, Draft, Stop},
    id::{EventId, RunId},
    key::Key,
    reads::Scan,
    row::{
        BatchCosts, Class, Costs, Fold, Gate, GateKey, GateState, Item, Part, Phase, Row, RowKey,
        Run, Scope, Source,
    },
    run::wait,
    time::Timestamp,
};

pub use claims::give_back_some;
pub use flush::{flush, retry, sweep};
pub(crate) use promised::{cancel, of_run, pause};

/// Maximum number of runs that a window's run waits for before it starts. One conversation does
/// not have more messages in progress at a time.
const MAX_AFTER: usize = 32;

/// Size of the first read of a batch's items.
const ITEMS_READ: u32 = 64;

impl Fold {
    /// Whether the fold is not flushed even if it is due or full, because it is held or paused.
    fn stays(&self) -> bool {
        self.held || self.paused
    }

    /// Whether the only run of the window so far is the one that its first event made.
    pub fn only_led(&self) -> bool {
        self.led && self.count == 0
    }

    /// Whether the fold will create this run.
    pub(crate) fn carries(&self, id: RunId) -> bool {
        (self.run == id && !self.only_led()) || self.full.iter().any(|part| part.run == id)
    }
}

/// Fold settings of a control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Folding {
    /// The class of the rows. It says in which form a row has its events.
    pub class: Class,
    /// When the fold is due.
    pub timing: Timing,
    /// Which events its run gets.
    pub keep: Kept,
    /// When its runs start.
    pub edge: Edge,
}

/// When a fold is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timing {
    /// After the last event; each event moves the deadline.
    Quiet { period_ms: u64, max_wait_ms: Option<u64> },
    /// After the first event.
    FromFirst { timeout_ms: u64 },
}

/// Which events the run of a fold gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Last,
    First,
    All { max_size: u32, max_bytes: u64 },
}

impl Kept {
    /// Keeps all events, up to the given or the default number and size.
    pub(super) fn all(max_size: Option<u32>, max_bytes: Option<u64>) -> Self {
        let most = u32::try_from(batch::MAX_SIZE).expect("the bound is small");
        let max_bytes = max_bytes.unwrap_or(batch::DEFAULT_BYTES);
        Self::All { max_size: max_size.unwrap_or(most), max_bytes }
    }
}

impl Folding {
    /// Returns how long a window stays open after each event, or a buffer after its first event.
    fn wait_ms(self) -> u64 {
        match self.timing {
            Timing::Quiet { period_ms, .. } => period_ms,
            Timing::FromFirst { timeout_ms } => timeout_ms,
        }
    }

    /// Returns the deadline of a fold that gets an event now.
    fn deadline(self, fold: &Fold, now: Timestamp) -> Timestamp {
        match self.timing {
            Timing::FromFirst { .. } => fold.deadline,
            Timing::Quiet { period_ms, max_wait_ms } => {
                let quiet = now.plus_ms(period_ms);
                max_wait_ms.map_or(quiet, |max| quiet.min(fold.opened.plus_ms(max)))
            }
        }
    }

    /// Whether the first event makes a run at once.
    fn leads(self) -> bool {
        match self.edge {
            Edge::Trailing => false,
            Edge::Leading | Edge::Both => true,
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
    if folding.class == Class::Batch && !candidate.is_collected()? {
        return Ok(None);
    }
    let scope = if folding.class == Class::Quiet {
        policy::scope(candidate, Class::Quiet)?.map(|(scope, _)| scope)
    } else {
        let key = (control.keys)(definition).first().copied().flatten();
        candidate.scope(folding.class, key)?
    };
    Ok(scope.map(|scope| (scope, folding)))
}

/// Returns the first fold that applies to an arrival, if its workflow has any.
fn first(candidate: &Candidate<'_>) -> Decided<Option<(Scope, Folding)>, Verdict> {
    if let Some(known) = candidate.results.fold.get() {
        return Ok(known.clone());
    }
    let mut first = None;
    for control in &*candidate.current.controls {
        first = of_control(candidate, control)?;
        if first.is_some() {
            break;
        }
    }
    Ok(candidate.results.fold.get_or_init(|| first).clone())
}

/// Joins an open window or buffer. Spends no token of the rate limit.
pub fn join(draft: &mut Draft, candidate: &Candidate<'_>) -> Decided<Option<Verdict>, Verdict> {
    match first(candidate)? {
        Some((scope, kind)) => join_one(draft, candidate, &scope, kind),
        None => Ok(None),
    }
}

/// Opens the window or buffer of the workflow, if it has one. With `edge: leading` or `both` the
/// event also makes a run.
pub fn open(draft: &mut Draft, candidate: &Candidate<'_>) -> Decided<Option<Verdict>, Verdict> {
    match first(candidate)? {
        Some((scope, kind)) if kind.leads() => lead(draft, candidate, &scope, kind).map(Some),
        Some((scope, kind)) => {
            open_one(draft, candidate, &scope, kind, candidate.promised()).map(Some)
        }
        None => Ok(None),
    }
}

/// Flushes the fold of an arrival that comes after its deadline. Also flushes a full window at which
/// the event makes a run at once, because the window's run is then before it (spec A2).
pub fn flush_overdue<E>(draft: &mut Draft, candidate: &Candidate<'_>) -> Decided<(), E> {
    if !candidate.arrives() {
        return Ok(());
    }
    // `admit` refuses an input of which a key cannot be read.
    let Some((scope, kind)) = not_refused(first(candidate))?.flatten() else { return Ok(()) };
    let key = GateKey::new(&scope);
    let Some((_, fold)) = load(draft, &key)?.filter(|(_, fold)| !fold.fired && !fold.stays())
    else {
        return Ok(());
    };
    if fold.deadline <= draft.now() || (kind.leads() && is_full(draft, candidate, kind, &fold)?) {
        flush(draft, &key)?;
    }
    Ok(())
}

/// Whether a window has no room for an event that is not refused before it reaches the window.
fn is_full<E>(
    draft: &Draft,
    candidate: &Candidate<'_>,
    kind: Folding,
    fold: &Fold,
) -> Decided<bool, E> {
    if not_refused(fits(draft, candidate, kind, fold))? != Some(false) {
        return Ok(false);
    }
    Ok(not_refused(check(draft, candidate))?.is_some())
}

/// Returns the result of a decision, or none if it refuses the input.
fn not_refused<T, E>(decided: Decided<T, Verdict>) -> Decided<Option<T>, E> {
    match decided {
        Ok(value) => Ok(Some(value)),
        Err(Stop::Refused(_)) => Ok(None),
        Err(Stop::Need(reads)) => Err(Stop::Need(reads)),
        Err(Stop::Full) => Err(Stop::Full),
    }
}

/// Makes a run of the event and opens a window for the events after it.
fn lead(
    draft: &mut Draft,
    candidate: &Candidate<'_>,
    scope: &Scope,
    kind: Folding,
) -> Decided<Verdict, Verdict> {
    let verdict = emit(draft, candidate, candidate.promised(), Source::Event(candidate.event.id))?;
    let Some(run) = verdict.run() else { return Ok(verdict) };
    let fold = Fold { led: true, ..opened(draft, candidate, kind, run) };
    // The run may have opened a buffer, whose row has the number of the run.
    let (key, id) = (GateKey::new(scope), draft.next_seq()?);
    let (at, due) = (draft.now(), Some(fold.deadline));
    draft.put(Gate { key, id, at, due, state: GateState::Fold(fold) });
    Ok(verdict)
}

/// Makes the run of an event that a window fires. If the workflow also has `batch`, the event goes
/// into a buffer instead.
fn emit(
    draft: &mut Draft,
    candidate: &Candidate<'_>,
    run: Option<RunId>,
    source: Source,
) -> Decided<Verdict, Verdict> {
    if let Source::Event(_) = source
        && !candidate.is_collected()?
    {
        return alone(draft, candidate, run);
    }
    if let Source::Event(_) = source
        && let Some((scope, kind)) = of_control(candidate, &batch::CONTROL)?
    {
        return match join_one(draft, candidate, &scope, kind)? {
            Some(verdict) => Ok(verdict),
            None => open_one(draft, candidate, &scope, kind, run),
        };
    }
    create(draft, candidate, run, source)
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
    run.source = Source::Event(candidate.event.id);
    // Gates that the run has not entered yet count the newer event. If it costs less, the run may
    // enter now.
    let next = run.plan.get(run.entered).map(|need| need.gate.clone());
    for need in run.plan.iter_mut().skip(run.entered) {
        let step = of_gate(candidate.plan()?, &need.gate);
        need.costs = step.map_or_else(Costs::default, |step| step.planned.costs.clone());
        need.given = step.and_then(|step| step.planned.given.clone());
    }
    let coming = run.plan[run.entered..].to_vec();
    if run.is_after() || !candidate.after().is_empty() {
        run.wanted |= candidate.is_wanted() || !run.is_after();
        wait::start_after(draft, &mut run, candidate.after())?;
    }
    if run.is_after() && matches!(run.phase, Phase::Queued { .. } | Phase::Ready) {
        gate::hold_back(draft, &mut run)?;
    }
    let queue = next.filter(|_| matches!(run.phase, Phase::Queued { .. }));
    draft.put(run);
    gate::hand_on(draft, queue.into_iter().collect())?;
    fold.last = candidate.event.id;
    fold.count += 1;
    let (run, fire_at) = (fold.run, fold.deadline);
    gate.state = GateState::Fold(fold);
    draft.put(gate);
    let given = gate::give(draft, &coming)?;
    gate::hand_on(draft, given)?;
    Ok(Some(Verdict::Coalesced { run, by: By::scope(scope), fire_at }))
}

/// Returns the step of a newer event's plan for a gate of the run that it joins. The run keeps the
/// keys of its first event, so the gate may have another key than that of the newer one.
fn of_gate<'a>(plan: &'a [GateStep], gate: &GateKey) -> Option<&'a GateStep> {
    let whole = |gate: &GateKey| gate.scope().map(|scope| Scope { key: Key::Whole, ..scope });
    let (same, control) = (plan.iter().find(|step| step.planned.gate == *gate), whole(gate));
    same.or_else(|| plan.iter().find(|step| whole(&step.planned.gate) == control))
}

/// Opens a window or buffer for `run`, or for a new run.
fn open_one(
    draft: &mut Draft,
    candidate: &Candidate<'_>,
    scope: &Scope,
    kind: Folding,
    run: Option<RunId>,
) -> Decided<Verdict, Verdict> {
    let run = run.map_or_else(|| draft.new_run_id(), Ok)?;
    let fold = opened(draft, candidate, kind, run);
    let (key, at, due) = (GateKey::new(scope), draft.now(), Some(fold.deadline));
    let gate = Gate { key, id: run.seq, at, due, state: GateState::Fold(fold.clone()) };
    add(draft, candidate, scope, kind, gate, fold)
}

/// Returns a fold that opens now, without events.
fn opened(draft: &Draft, candidate: &Candidate<'_>, kind: Folding, run: RunId) -> Fold {
    let now = draft.now();
    Fold {
        run,
        first: candidate.event.id,
        last: candidate.event.id,
        after: Vec::new(),
        opened: now,
        deadline: now.plus_ms(kind.wait_ms()),
        count: 0,
        bytes: 0,
        costs: BTreeMap::new(),
        full: Vec::new(),
        held: false,
        paused: false,
        fired: false,
        led: false,
    }
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
    fold.deadline = kind.deadline(&fold, draft.now());
    // The due time never moves later here, so that a burst does not update the index of due rows
    // with every event. The sweep finds the row early and moves the due time.
    gate.due = gate.due.map(|due| due.min(fold.deadline));
    let (fire_at, only_led) = (fold.deadline, fold.only_led());
    if only_led && kind.edge == Edge::Leading {
        let run = fold.run;
        gate.state = GateState::Fold(fold);
        draft.put(gate);
        return Ok(Verdict::Coalesced { run, by, fire_at });
    }
    if only_led {
        fold.run = draft.new_run_id()?;
    }
    // An older build may have opened the fold with another number.
    gate.id = fold.run.seq;
    if kind.keep != Kept::First || fold.count == 0 {
        fold.last = candidate.event.id;
    }
    if !fits(draft, candidate, kind, &fold)? {
        part(draft, &mut fold)?;
        gate.id = fold.run.seq;
    }
    go_after(draft, &mut fold, candidate.after())?;
    let Kept::All { max_size, max_bytes } = kind.keep else {
        fold.count += 1;
        let run = fold.run;
        gate.state = GateState::Fold(fold);
        draft.put(gate);
        return Ok(Verdict::Coalesced { run, by, fire_at });
    };
    if fold.count == 0 {
        fold.first = candidate.event.id;
    }
    let (run, key) = (fold.run, gate.key.clone());
    idempotency::take(draft, candidate, run)?;
    draft.put(Item { run: run.seq, n: fold.count, event: candidate.event.id });
    let BatchCosts { events, at } = sums(candidate, fold.count, &fold.costs)?;
    (fold.count, fold.costs) = (events, at);
    fold.bytes += size(candidate);
    let (pending, flush_at) = (fold.count, fold.deadline);
    let full = fold.count >= max_size || fold.bytes >= max_bytes;
    let stays = fold.stays();
    gate.state = GateState::Fold(fold);
    draft.put(gate);
    let flushed = if full && !stays { flush(draft, &key)? } else { None };
    Ok(flushed.unwrap_or(match kind.timing {
        Timing::Quiet { .. } => Verdict::Coalesced { run, by, fire_at },
        Timing::FromFirst { .. } => Verdict::Buffered { run, by, pending, flush_at },
    }))
}

/// Creates the run of an event that the control `batch` does not collect. It gets a batch of one, so
/// that the handler of the workflow has one form of input.
pub fn alone(
    draft: &mut Draft,
    candidate: &Candidate<'_>,
    run: Option<RunId>,
) -> Decided<Verdict, Verdict> {
    let run = run.map_or_else(|| draft.new_run_id(), Ok)?;
    idempotency::take(draft, candidate, run)?;
    let event = candidate.event.id;
    draft.put(Item { run: run.seq, n: 0, event });
    let batch = Some(sums(candidate, 0, &BTreeMap::new())?);
    let candidate = Candidate { batch, results: Results::default(), ..candidate.clone() };
    create(draft, &candidate, Some(run), Source::Batch(event))
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
    let (costs, after) = (std::mem::take(&mut fold.costs), std::mem::take(&mut fold.after));
    fold.full.push(Part { run: fold.run, first: fold.first, count: fold.count, costs, after });
    fold.run = draft.new_run_id()?;
    (fold.count, fold.bytes) = (0, 0);
    Ok(())
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

fn load<E>(draft: &Draft, key: &GateKey) -> Decided<Option<(Gate, Fold)>, E> {
    Ok(match draft.gate(key)? {
        Some(gate) => match &gate.state {
            GateState::Fold(fold) => Some((gate.clone(), fold.clone())),
            GateState::Slots(_)
            | GateState::Meter(_)
            | GateState::Turns(_)
            | GateState::Claim(_)
            | GateState::Share(_) => None,
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
    let Kept::All { max_size, max_bytes } = kind.keep else { return Ok(true) };
    if fold.count == 0 {
        return Ok(true);
    }
    if fold.count >= max_size || fold.bytes + size(candidate) > max_bytes {
        return Ok(false);
    }
    if control::costs(candidate.workflow()).next().is_none() {
        return Ok(true);
    }
    let batch = Some(sums(candidate, fold.count, &fold.costs)?);
    let together = Candidate { batch, results: Results::default(), ..candidate.clone() };
    Ok(too_costly(draft, &together)?.is_none())
}

/// Returns the sums of the costs of a buffer's events and of one more.
fn sums(
    candidate: &Candidate<'_>,
    events: u32,
    costs: &BTreeMap<String, u32>,
) -> Decided<BatchCosts, Verdict> {
    let mut sums = BatchCosts { events: events + 1, at: BTreeMap::new() };
    for (control, cost) in control::costs(candidate.workflow()) {
        if let Cost::From(path) = cost {
            let path = path.to_string();
            let before = costs.get(&path).copied().unwrap_or(events);
            let units = candidate.cost(control.name, Some(cost))?;
            sums.at.insert(path, before.saturating_add(units));
        }
    }
    Ok(sums)
}

fn size(candidate: &Candidate<'_>) -> u64 {
    candidate.event.data.as_str().len() as u64
}

/// Returns the run that a fold will create, and when it will be created if no further event
/// arrives; for `/flow-state` and `why`.
pub fn due(fold: &Fold) -> (RunId, Timestamp) {
    (fold.run, fold.deadline)
}
