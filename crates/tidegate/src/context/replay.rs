//! Replay of a run's records: which records the code has requested, in which order it receives
//! them, and which operations wait until the replay ends.
//!
//! Records are delivered in their original order, each one when the handler cannot advance by any
//! other means. At that moment every branch of unchanged code has requested the same operations as
//! in the earlier activation, so unchanged code requests every record. An operation without a
//! record begins only after all records are delivered. If a record has not been requested by then,
//! the code has changed, and the run stops before the new effect.
//!
//! A run without records needs no replay: its new operations begin at once.

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
    /// The recorded step, without its id.
    step: row::Step,
    /// Position in the delivery order.
    place: usize,
}

/// An operation without a record that waits for the end of the replay.
#[derive(Debug)]
struct Queued {
    asks: Asks,
    waker: Waker,
}

#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "four independent facts, not one state")]
pub(super) struct Replay {
    /// Records of earlier activations, by id.
    records: BTreeMap<String, Record>,
    /// Ids that an earlier activation requested and this one has not requested yet: of recorded
    /// steps, and of waits without an answer.
    unclaimed: BTreeMap<String, StepKind>,
    /// Ids of failed steps that are retried, and of steps for which the run was queued, that this
    /// activation has not requested yet.
    retries: BTreeSet<String>,
    /// Unclaimed ids that have a record, by the position of the record.
    lost: BTreeMap<usize, String>,
    /// Positions of records that the handler has not received yet.
    undelivered: BTreeSet<usize>,
    /// Undelivered records that the handler has requested.
    held: BTreeMap<usize, Waker>,
    /// Requested operations without a record, which wait for the end of the replay.
    queue: BTreeMap<String, Queued>,
    /// Requested waits that no earlier activation requested.
    new_waits: BTreeSet<String>,
    /// Queued operations that need not wait for the end of the replay, see [`Replay::pass_early`].
    passed: BTreeSet<String>,
    /// Whether some records were copied from another run. Its session operations are not copied.
    copied: bool,
    /// Whether the replay is over: operations without a record may begin.
    open: bool,
    /// Whether the handler decides by itself what the records mean, see [`Replay::waive`].
    waived: bool,
    /// Whether this is a dry replay: operations without a record never begin.
    dry: bool,
}

/// State of a replay after the handler was polled.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// The handler received a record: poll it again.
    Advanced,
    /// Nothing is left to replay.
    Over,
    /// Nothing is left to replay, and the handler requests an operation without a record (dry
    /// replay).
    Fresh,
    /// A record is unclaimed and the handler requests nothing; or the handler is busy.
    Stuck,
    /// This record is unclaimed, and the handler can continue only if [`Replay::proceed`] treats
    /// the record as lost.
    Halted(String),
}

/// Result of [`Replay::proceed`]: what happens to a replay with an unclaimed record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Proceeds {
    /// The handler received a record: poll it again.
    Advanced,
    /// The handler requests a session operation, which was not copied from the other run (dry
    /// replay).
    Fresh,
    /// The code has changed.
    Changed {
        /// Id that an earlier activation requested and this one did not.
        lost: String,
        /// Ids that this activation requested instead.
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
            .map(|(place, mut step)| (std::mem::take(&mut step.id), Record { step, place }))
            .collect();
        // A failed attempt is not a record: code that reads `Ctx::attempt` may take another path
        // next time.
        let retries = run.waits.iter().filter(|wait| wait.on == WaitOn::Retry);
        let retries = retries.map(|wait| &wait.step).chain(run.failures.keys());
        let retries = retries.chain(&run.in_pools);
        let retries = retries.filter(|step| !step.is_empty()).cloned().collect();
        let waits = run.waits.iter().filter_map(|wait| Some((&wait.step, kind_of(&wait.on)?)));
        let own = || records.iter().filter(|(id, record)| !is_outside(id, record.step.kind));
        let claimable = own().filter(|(id, record)| !is_marker(id, record.step.kind));
        let claimable = claimable.map(|(id, record)| (id, record.step.kind));
        let unclaimed: BTreeMap<_, _> =
            claimable.chain(waits).map(|(id, kind)| (id.clone(), kind)).collect();
        let place = |id: &String| Some((records.get(id)?.place, id.clone()));
        let lost = unclaimed.keys().filter_map(place).collect();
        let undelivered: BTreeSet<_> = own().map(|(_, record)| record.place).collect();
        let open = undelivered.is_empty() && unclaimed.is_empty();
        Self { records, unclaimed, retries, lost, undelivered, copied, open, ..Self::default() }
    }

    /// Makes this a dry replay: operations without a record never begin.
    pub(super) fn dry(self) -> Self {
        Self { dry: true, open: false, ..self }
    }

    /// Claims an operation that the handler requests. Returns `true` if the operation has a record.
    /// Returns the recorded kind as an error if it differs from `kind`.
    pub(super) fn claim(&mut self, id: &str, kind: StepKind) -> Result<bool, StepKind> {
        let recorded = self.kind(id);
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

    /// Returns whether this activation has not yet requested all operations of the earlier ones.
    pub(super) fn is_under_way(&self) -> bool {
        !self.unclaimed.is_empty() || !self.retries.is_empty()
    }

    /// Returns whether operations without a record still have to wait.
    pub(super) fn holds_back(&self) -> bool {
        !self.open
    }

    /// Returns the number of requested operations that wait for their turn.
    pub(super) fn waiting(&self) -> usize {
        self.held.len() + self.queue.len()
    }

    pub(super) fn outcome(&self, id: &str) -> Option<&Outcome> {
        self.records.get(id).map(|record| &record.step.result)
    }

    /// Returns the kind of a recorded step.
    pub(super) fn kind(&self, id: &str) -> Option<StepKind> {
        self.records.get(id).map(|record| record.step.kind)
    }

    /// Returns the number of records.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// Polls the turn of a requested operation. Ready with its record when that is delivered, or
    /// with `None` when an operation without a record may begin.
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
        Poll::Ready(Some(record.step.result.clone()))
    }

    /// Polls an operation without a record, which may begin when the replay is over. A patch that
    /// the run passed before it was in the code returns `false`.
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

    /// Removes a requested operation whose future was dropped before its turn.
    pub(super) fn withdraw(&mut self, id: &str) {
        self.queue.remove(id);
        self.new_waits.remove(id);
        if let Some(Record { place, .. }) = self.records.get(id) {
            self.held.remove(place);
            self.undelivered.remove(place);
        }
    }

    /// Delivers the next record after the handler was polled, or ends the replay. Neither depends
    /// on what else the handler does, so both also happen while the handler is busy. `quiet` says
    /// that the handler cannot advance by itself.
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

    /// Ends the replay: operations without a record may begin.
    fn open(&mut self) -> Settled {
        self.open = true;
        let queue = std::mem::take(&mut self.queue);
        let settled = if queue.is_empty() { Settled::Over } else { Settled::Advanced };
        for queued in queue.into_values() {
            queued.waker.wake();
        }
        settled
    }

    /// Delivers the first record that the handler has requested. Returns `false` if there is none.
    fn deliver(&mut self) -> bool {
        let Some((place, waker)) = self.held.pop_first() else { return false };
        self.undelivered.remove(&place);
        waker.wake();
        true
    }

    /// Continues after [`Settled::Halted`]: the code will not request the unclaimed records.
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

    /// Releases queued operations that need not wait for the end of the replay: patches, and
    /// session operations in a run with copied records (the session operations of the other run
    /// were not copied). Returns whether there were any.
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

    /// Returns the id of the first unclaimed operation: the one whose record comes first, or else a
    /// wait. Empty if there is none.
    pub(super) fn first_unclaimed(&self) -> String {
        self.lost.values().chain(self.unclaimed.keys()).next().cloned().unwrap_or_default()
    }

    /// Returns the id of the first recorded effect that the code has not requested.
    pub(super) fn lost_effect(&self) -> Option<&str> {
        let effect = |id: &&String| self.unclaimed.get(*id).is_some_and(|kind| kind.is_effect());
        self.lost.values().find(effect).map(String::as_str)
    }

    /// Returns the number of records of this kind.
    pub(super) fn count(&self, kind: StepKind) -> usize {
        self.records.values().filter(|record| record.step.kind == kind).count()
    }

    /// Ends the replay: the handler reads the records and requests what it wants of them.
    pub(super) fn waive(&mut self) {
        self.unclaimed.clear();
        self.retries.clear();
        self.lost.clear();
        self.undelivered.clear();
        self.new_waits.clear();
        for waker in std::mem::take(&mut self.held).into_values() {
            waker.wake();
        }
        (self.waived, self.open) = (true, !self.dry);
        for queued in std::mem::take(&mut self.queue).into_values() {
            queued.waker.wake();
        }
    }

    /// Returns whether the handler decides by itself what the records mean.
    pub(super) fn is_waived(&self) -> bool {
        self.waived
    }

    /// Returns the recorded steps, in the order in which they were recorded.
    pub(super) fn steps(&self) -> Vec<row::Step> {
        let step =
            |(id, record): (&String, &Record)| row::Step { id: id.clone(), ..record.step.clone() };
        let mut steps: Vec<_> = self.records.iter().map(step).collect();
        steps.sort_by_key(|step| step.seq);
        steps
    }

    /// Adds steps that were recorded since the activation began. The handler gets them without
    /// waiting for a turn, because the replay is waived. Returns the ids of those that are new.
    pub(super) fn add(&mut self, steps: Vec<row::Step>) -> Vec<String> {
        let mut new = Vec::new();
        for (place, mut step) in steps.into_iter().enumerate() {
            let id = std::mem::take(&mut step.id);
            if self.records.insert(id.clone(), Record { step, place }).is_none() {
                new.push(id);
            }
        }
        new
    }

    /// Returns whether this is a dry replay.
    pub(super) fn is_dry(&self) -> bool {
        self.dry
    }

    /// Returns the number of wakers in this replay that belong to the task of `of`.
    pub(super) fn wakers(&self, of: &Waker) -> usize {
        let wakers = self.held.values().chain(self.queue.values().map(|queued| &queued.waker));
        wakers.filter(|waker| waker.data() == of.data()).count()
    }
}

/// Returns the kind of the step that waits in this way; `None` if no step does.
pub(super) fn kind_of(on: &WaitOn) -> Option<StepKind> {
    match on {
        WaitOn::Time => Some(StepKind::Sleep),
        // A run is not driven while it waits for its predecessor.
        WaitOn::Retry | WaitOn::Before { .. } => None,
        WaitOn::Event { .. } => Some(StepKind::Event),
        WaitOn::Signal { .. } | WaitOn::Named { .. } => Some(StepKind::Signal),
        WaitOn::Child { .. } => Some(StepKind::Invoke),
    }
}

/// Prefix of the ids of steps that code outside of the handler has requested with
/// [`Engine::change_session_in`](crate::Engine::change_session_in). The handler's own code never
/// requests these steps.
pub(crate) const OUTSIDE: &str = "session:";

/// Prefix of the ids of [`Ctx::patched`](crate::Ctx::patched) markers; other steps may not use it.
/// A replay does not require the code to request the markers again.
pub(super) const PATCH: &str = "patch:";

fn is_outside(id: &str, kind: StepKind) -> bool {
    kind == StepKind::State && id.starts_with(OUTSIDE)
}

fn is_marker(id: &str, kind: StepKind) -> bool {
    kind == StepKind::Run && id.starts_with(PATCH)
}
