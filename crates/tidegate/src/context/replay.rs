//! Replay of a run's records: which of them the code has asked for, in which order it gets them,
//! and what waits until the replay is over.
//!
//! Code that is the same asks for every record again, if it gets them in the order in which it
//! got them first, each when it can advance on nothing else: then every branch has asked for what
//! it asked for before. So records are delivered in that way, and an operation that is not on
//! record begins only after them. A record that is not asked for by then proves that the code has
//! changed, and the run stops before the new effect.
//!
//! Nothing here runs for a run without records: its gate is open from the start.

use std::{
    collections::{BTreeMap, BTreeSet},
    task::{Context, Poll, Waker},
};

use tidegate_core::{
    json::Payload,
    row::{self, Run, StepKind, WaitOn},
};

use super::turn::Asks;

/// What a recorded step came to.
pub(crate) type Outcome = Result<Payload, row::RunError>;

#[derive(Debug)]
struct Record {
    kind: StepKind,
    outcome: Outcome,
    /// Its place in the order of delivery.
    place: usize,
}

/// An operation that is not on record and waits for the end of the replay.
#[derive(Debug)]
struct Queued {
    asks: Asks,
    waker: Waker,
}

#[derive(Debug, Default)]
pub(super) struct Replay {
    /// The records of earlier activations, by id.
    records: BTreeMap<String, Record>,
    /// Ids that an earlier activation asked for, and this one has not yet: of records, and of
    /// waits that are not answered.
    unclaimed: BTreeMap<String, StepKind>,
    /// The same of steps that failed and are tried again.
    retries: BTreeSet<String>,
    /// Those of them that are on record, by their place.
    lost: BTreeMap<usize, String>,
    /// Records that the handler has not got yet.
    undelivered: BTreeSet<usize>,
    /// Those of them that it has asked for.
    held: BTreeMap<usize, Waker>,
    /// Operations that are not on record.
    queue: BTreeMap<String, Queued>,
    /// Waits that no earlier activation asked for.
    new_waits: BTreeSet<String>,
    /// Patches that the run passed before they were in the code.
    passed: BTreeSet<String>,
    /// Some records are copies out of another run, without its operations on sessions.
    copied: bool,
    /// Operations that are not on record may begin.
    open: bool,
    /// Operations that are not on record never begin.
    dry: bool,
}

/// How far a replay is once the handler was polled.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// The handler has got something: poll it again.
    Advanced,
    /// Nothing is left to replay.
    Over,
    /// Nothing is left to replay, and an operation would begin.
    Fresh,
    /// Nothing new is asked for, and something on record was not; or the handler is busy.
    Stuck,
    /// This is on record and not asked for, and the handler cannot advance by itself before
    /// [`Replay::proceed`] takes it for lost.
    Halted(String),
}

/// How a replay goes on without a record that is not asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Proceeds {
    /// The handler has got something: poll it again.
    Advanced,
    /// An operation would begin.
    Fresh,
    /// The code has changed.
    Changed {
        /// Asked for by an earlier activation, and by this one not.
        lost: String,
        /// Asked for instead.
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
        // An attempt that failed is no record: `Ctx::attempt` may lead the next one elsewhere.
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

    /// The replay of records that must have no further effect.
    pub(super) fn dry(self) -> Self {
        Self { dry: true, open: false, ..self }
    }

    /// The handler asks for an operation: `true` if it is on record, or else the kind of which it
    /// was before.
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

    /// Whether an earlier activation has come further than this one.
    pub(super) fn is_under_way(&self) -> bool {
        !self.unclaimed.is_empty() || !self.retries.is_empty()
    }

    /// Whether operations that are not on record still wait.
    pub(super) fn holds_back(&self) -> bool {
        !self.open
    }

    /// How many operations wait for their turn.
    pub(super) fn waiting(&self) -> usize {
        self.held.len() + self.queue.len()
    }

    pub(super) fn outcome(&self, id: &str) -> Option<&Outcome> {
        self.records.get(id).map(|record| &record.outcome)
    }

    /// An operation that was asked for gets its record, in its place; `None` when it may begin.
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

    /// An operation that is not on record begins when the replay is over. A patch that the run
    /// has passed comes to `false`.
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

    /// An operation was dropped before its turn came.
    pub(super) fn withdraw(&mut self, id: &str) {
        self.queue.remove(id);
        self.new_waits.remove(id);
        if let Some(Record { place, .. }) = self.records.get(id) {
            self.held.remove(place);
            self.undelivered.remove(place);
        }
    }

    /// The handler was polled: delivers the record that is next, or ends the replay. Neither
    /// depends on what else the handler does, so that they also take place while it is busy.
    /// `quiet`: it cannot advance by itself.
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

    /// Lets the operations begin that are not on record.
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

    /// Goes on after [`Settled::Halted`]: what is not asked for will not be.
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

    /// Lets those of the queue go on that need no end of the replay: patches, of which the run is
    /// past, and operations on sessions that were taken back with the run that was copied.
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

    /// The first operation by its record that the code should have asked for, if any has one.
    pub(super) fn first_unclaimed(&self) -> String {
        self.lost.values().chain(self.unclaimed.keys()).next().cloned().unwrap_or_default()
    }

    /// The first effect on record that the code has not asked for.
    pub(super) fn lost_effect(&self) -> Option<&str> {
        let effect = |id: &&String| self.unclaimed.get(*id).is_some_and(|kind| kind.is_effect());
        self.lost.values().find(effect).map(String::as_str)
    }

    /// How many records are of this kind.
    pub(super) fn count(&self, kind: StepKind) -> usize {
        self.records.values().filter(|record| record.kind == kind).count()
    }

    /// Whether this is a replay without effects.
    pub(super) fn is_dry(&self) -> bool {
        self.dry
    }

    /// How many wakers of one task are kept here.
    pub(super) fn wakers(&self, of: &Waker) -> usize {
        let wakers = self.held.values().chain(self.queue.values().map(|queued| &queued.waker));
        wakers.filter(|waker| waker.data() == of.data()).count()
    }
}

/// The kind of a step that waits for an answer.
fn kind_of(on: &WaitOn) -> Option<StepKind> {
    match on {
        WaitOn::Time => Some(StepKind::Sleep),
        // Nothing is driven while it waits for the run that goes before it.
        WaitOn::Retry | WaitOn::Before { .. } => None,
        WaitOn::Event { .. } => Some(StepKind::Event),
        WaitOn::Signal { .. } => Some(StepKind::Signal),
        WaitOn::Child { .. } => Some(StepKind::Invoke),
    }
}

/// What the ids of steps begin with that those have asked for whom the handler has called
/// ([`Engine::change_session_in`](crate::Engine::change_session_in)): no code comes to them.
pub(crate) const OUTSIDE: &str = "session:";

/// What the ids of the markers of [`Ctx::patched`](crate::Ctx::patched) begin with, and no other
/// id may. The code may stop asking for them.
pub(super) const PATCH: &str = "patch:";

fn is_outside(id: &str, kind: StepKind) -> bool {
    kind == StepKind::State && id.starts_with(OUTSIDE)
}

fn is_marker(id: &str, kind: StepKind) -> bool {
    kind == StepKind::Run && id.starts_with(PATCH)
}
