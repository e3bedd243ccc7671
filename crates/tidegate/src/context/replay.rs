//! Replay of a run's records: which records the code has requested, in which order it receives
//! them, and which operations wait until the replay ends.
//!
//! Unchanged code requests every record again if it receives them in their original order, each one
//! when it can advance on nothing else: then every branch has requested what it requested before.
//! So records are delivered in that way, and an operation without a record begins only after them.
//! A record that has not been requested by then proves that the code has changed, and the run stops
//! before the new effect.
//!
//! A run without records skips all of this: its replay is open from the start.

use std::{
    collections::{BTreeMap, BTreeSet},
    task::{Context, Poll, Waker},
};

use tidegate_core::{
    json::Payload,
    row::{self, Run, StepKind, WaitOn},
};

use super::turn::Asks;

/// Outcome of a recorded step.
pub(crate) type Outcome = Result<Payload, row::RunError>;

#[derive(Debug)]
struct Record {
    kind: StepKind,
    outcome: Outcome,
    /// Position in the order of delivery.
    place: usize,
}

/// An operation without a record that waits for the end of the replay.
#[derive(Debug)]
struct Queued {
    asks: Asks,
    waker: Waker,
}

#[derive(Debug, Default)]
pub(super) struct Replay {
    /// Records of earlier activations, by id.
    records: BTreeMap<String, Record>,
    /// Ids that an earlier activation requested, and this one has not yet: of records, and of
    /// unanswered waits.
    unclaimed: BTreeMap<String, StepKind>,
    /// Like `unclaimed`, for steps that failed and are retried.
    retries: BTreeSet<String>,
    /// Unclaimed ids that have a record, by the record's position.
    lost: BTreeMap<usize, String>,
    /// Positions of records that the handler has not received yet.
    undelivered: BTreeSet<usize>,
    /// Undelivered records that the handler has requested.
    held: BTreeMap<usize, Waker>,
    /// Operations without a record.
    queue: BTreeMap<String, Queued>,
    /// Waits that no earlier activation requested.
    new_waits: BTreeSet<String>,
    /// Patches that the run passed before they were in the code.
    passed: BTreeSet<String>,
    /// Whether some records are copies from another run, without its session operations.
    copied: bool,
    /// Whether operations without a record may begin.
    open: bool,
    /// Whether operations without a record never begin.
    dry: bool,
}

/// State of a replay after the handler was polled.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// The handler received a record: poll it again.
    Advanced,
    /// Nothing is left to replay.
    Over,
    /// Nothing is left to replay, and an operation would begin.
    Fresh,
    /// No operation is newly requested, and a record is unclaimed; or the handler is busy.
    Stuck,
    /// This record is unclaimed, and the handler cannot advance by itself before
    /// [`Replay::proceed`] gives the record up as lost.
    Halted(String),
}

/// Continuation of a replay without an unclaimed record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Proceeds {
    /// The handler received a record: poll it again.
    Advanced,
    /// An operation would begin.
    Fresh,
    /// The code has changed.
    Changed {
        /// Id requested by an earlier activation, and not by this one.
        lost: String,
        /// Ids requested instead.
        new: Vec<String>,
    },
}

impl Replay {
    pub(super) fn new(run: &Run, mut steps: Vec<row::Step>) -> Self {
        let copied = steps.iter().any(|step| step.fence == 0);
        row::Step::sort(&mut steps);
        let records: BTreeMap<String, Record> = steps
            .into_iter()
            .enumerate()
            .map(|(place, step)| {
                let row::Step { id, kind, result: outcome, .. } = step;
                (id, Record { kind, outcome, place })
            })
            .collect();
        // A failed attempt is not a record: `Ctx::attempt` may lead the next one elsewhere.
        let retries = run.waits.iter().filter(|wait| wait.on == WaitOn::Retry);
        let retries = retries.map(|wait| &wait.step).chain(run.failures.keys());
        let retries = retries.filter(|step| !step.is_empty()).cloned().collect();
        let waits = run.waits.iter().filter_map(|wait| Some((&wait.step, kind_of(&wait.on)?)));
        let own = || records.iter().filter(|(id, record)| !is_outside(id, record.kind));
        let claimable = own().filter(|(id, record)| !is_marker(id, record.kind));
        let claimable = claimable.map(|(id, record)| (id, record.kind));
        let unclaimed: BTreeMap<_, _> =
            claimable.chain(waits).map(|(id, kind)| (id.clone(), kind)).collect();
        let place = |id: &String| Some((records.get(id)?.place, id.clone()));
        let lost = unclaimed.keys().filter_map(place).collect();
        let undelivered: BTreeSet<_> = own().map(|(_, record)| record.place).collect();
        let open = undelivered.is_empty() && unclaimed.is_empty();
        Self { records, unclaimed, retries, lost, undelivered, copied, open, ..Self::default() }
    }

    /// Makes this the replay of records that must have no further effect.
    pub(super) fn dry(self) -> Self {
        Self { dry: true, open: false, ..self }
    }

    /// Claims an operation that the handler requests. Returns `true` if it has a record; the error
    /// is its earlier kind, if it was another.
    pub(super) fn claim(&mut self, id: &str, kind: StepKind) -> Result<bool, StepKind> {
        let recorded = self.records.get(id).map(|record| record.kind);
        if let Some(Record { place, .. }) = self.records.get(id) {
            self.lost.remove(place);
        }
        self.retries.remove(id);
        match self.unclaimed.remove(id).or(recorded) {
            Some(before) if before != kind => return Err(before),
            None if !self.open && !kind.is_effect() => {
                self.new_waits.insert(id.to_owned());
            }
            _ => {}
        }
        Ok(recorded.is_some())
    }

    /// Returns whether an earlier activation got further than this one.
    pub(super) fn is_under_way(&self) -> bool {
        !self.unclaimed.is_empty() || !self.retries.is_empty()
    }

    /// Returns whether operations without a record still wait.
    pub(super) fn holds_back(&self) -> bool {
        !self.open
    }

    /// Returns the number of operations that wait for their turn.
    pub(super) fn waiting(&self) -> usize {
        self.held.len() + self.queue.len()
    }

    pub(super) fn outcome(&self, id: &str) -> Option<&Outcome> {
        self.records.get(id).map(|record| &record.outcome)
    }

    /// Polls the turn of a requested operation: ready with its record in order of delivery, or with
    /// `None` when the operation may begin.
    pub(super) fn poll_turn(
        &mut self,
        id: &str,
        asks: Asks,
        cx: &Context<'_>,
    ) -> Poll<Option<Outcome>> {
        let Some(record) = self.records.get(id) else { return self.poll_begin(id, asks, cx) };
        if !self.open && self.undelivered.contains(&record.place) {
            self.held.insert(record.place, cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Some(record.outcome.clone()))
    }

    /// Polls an operation without a record, which begins when the replay is over. A patch that the
    /// run has passed yields `false`.
    fn poll_begin(&mut self, id: &str, asks: Asks, cx: &Context<'_>) -> Poll<Option<Outcome>> {
        if self.passed.contains(id) {
            return Poll::Ready(asks.patch.then(|| Ok(Payload::from_value(&false.into()))));
        }
        if self.open {
            return Poll::Ready(None);
        }
        let waker = cx.waker().clone();
        self.queue.insert(id.to_owned(), Queued { asks, waker });
        Poll::Pending
    }

    /// Removes an operation that was dropped before its turn.
    pub(super) fn withdraw(&mut self, id: &str) {
        self.queue.remove(id);
        self.new_waits.remove(id);
        if let Some(Record { place, .. }) = self.records.get(id) {
            self.held.remove(place);
            self.undelivered.remove(place);
        }
    }

    /// Delivers the next record after the handler was polled, or ends the replay. Neither depends
    /// on what else the handler does, so both also happen while it is busy. `quiet`: the handler
    /// cannot advance by itself.
    pub(super) fn settle(&mut self, quiet: bool) -> Settled {
        let (next, lost) = (self.held.first_key_value(), self.lost.first_key_value());
        if next.is_some_and(|(place, _)| lost.is_none_or(|(lost, _)| place < lost)) {
            self.deliver();
            return Settled::Advanced;
        }
        if self.open {
            return Settled::Over;
        }
        match (self.unclaimed.is_empty(), quiet) {
            (true, false) if self.dry => Settled::Stuck,
            (true, true) if self.dry && self.queue.is_empty() => Settled::Over,
            (true, true) if self.dry => Settled::Fresh,
            (true, _) => self.open(),
            (false, true) if !self.is_asked_for_nothing() => {
                Settled::Halted(self.first_unclaimed())
            }
            (false, _) => Settled::Stuck,
        }
    }

    /// Opens the replay: operations without a record may begin.
    fn open(&mut self) -> Settled {
        self.open = true;
        let queue = std::mem::take(&mut self.queue);
        let settled = if queue.is_empty() { Settled::Over } else { Settled::Advanced };
        for queued in queue.into_values() {
            queued.waker.wake();
        }
        settled
    }

    /// Delivers the first record that the handler waits for.
    fn deliver(&mut self) -> bool {
        let Some((place, waker)) = self.held.pop_first() else { return false };
        self.undelivered.remove(&place);
        waker.wake();
        true
    }

    /// Continues after [`Settled::Halted`]: unclaimed records will not be requested.
    pub(super) fn proceed(&mut self) -> Proceeds {
        if self.deliver() || self.pass_early() {
            return Proceeds::Advanced;
        }
        let state = |queued: &Queued| queued.asks.kind == StepKind::State;
        if self.copied && self.queue.values().any(state) {
            return Proceeds::Fresh;
        }
        let new = self.queue.keys().chain(&self.new_waits).cloned().collect();
        Proceeds::Changed { lost: self.first_unclaimed(), new }
    }

    fn is_asked_for_nothing(&self) -> bool {
        self.held.is_empty() && self.queue.is_empty() && self.new_waits.is_empty()
    }

    /// Releases queued operations that need not wait for the end of the replay: patches that the
    /// run has passed, and session operations that were rolled back with the run that was copied.
    fn pass_early(&mut self) -> bool {
        let copied = self.copied && !self.dry;
        let early = |Asks { kind, patch }| patch || copied && kind == StepKind::State;
        let early: Vec<_> = self.queue.extract_if(.., |_, queued| early(queued.asks)).collect();
        let passed = !early.is_empty();
        for (id, queued) in early {
            self.passed.insert(id);
            queued.waker.wake();
        }
        passed
    }

    /// Returns the first operation that the code should have requested: by its record, if any has
    /// one.
    pub(super) fn first_unclaimed(&self) -> String {
        self.lost.values().chain(self.unclaimed.keys()).next().cloned().unwrap_or_default()
    }

    /// Returns the first recorded effect that the code has not requested.
    pub(super) fn lost_effect(&self) -> Option<&str> {
        let effect = |id: &&String| self.unclaimed.get(*id).is_some_and(|kind| kind.is_effect());
        self.lost.values().find(effect).map(String::as_str)
    }

    /// Returns the number of records of this kind.
    pub(super) fn count(&self, kind: StepKind) -> usize {
        self.records.values().filter(|record| record.kind == kind).count()
    }

    /// Returns whether this is a replay without effects.
    pub(super) fn is_dry(&self) -> bool {
        self.dry
    }

    /// Returns the number of wakers of one task that are registered here.
    pub(super) fn wakers(&self, of: &Waker) -> usize {
        let wakers = self.held.values().chain(self.queue.values().map(|queued| &queued.waker));
        wakers.filter(|waker| waker.data() == of.data()).count()
    }
}

/// Returns the kind of step that waits for an answer.
fn kind_of(on: &WaitOn) -> Option<StepKind> {
    match on {
        WaitOn::Time => Some(StepKind::Sleep),
        // A run is not driven while it waits for its predecessor.
        WaitOn::Retry | WaitOn::Before { .. } => None,
        WaitOn::Event { .. } => Some(StepKind::Event),
        WaitOn::Signal { .. } => Some(StepKind::Signal),
        WaitOn::Child { .. } => Some(StepKind::Invoke),
    }
}

/// Prefix of the ids of steps that callees of the handler have requested
/// ([`Engine::change_session_in`](crate::Engine::change_session_in)): the handler's own code never
/// requests them.
pub(crate) const OUTSIDE: &str = "session:";

/// Prefix reserved for the ids of the markers of [`Ctx::patched`](crate::Ctx::patched). The code
/// may stop requesting them.
pub(super) const PATCH: &str = "patch:";

fn is_outside(id: &str, kind: StepKind) -> bool {
    kind == StepKind::State && id.starts_with(OUTSIDE)
}

fn is_marker(id: &str, kind: StepKind) -> bool {
    kind == StepKind::Run && id.starts_with(PATCH)
}
