//! Loader of leased runs: their inputs and recorded steps.
//!
//! Loads are grouped like commits: one read loads many runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use tidegate_core::{
    id::Seq,
    reads::{ReadSet, Scan, Snapshot},
    row::{Ended, Event, Purpose, Row, RowKey, Run, Source, Step},
};
use tidegate_store::{CommitEffects, Store, StoreError};
use tokio::sync::Notify;

use crate::{
    engine::{Seat, Shared},
    turns::WorkerKind,
};

/// Maximum number of steps of one run.
///
/// Split more work into several runs.
pub const MAX_STEPS: u32 = 10_000;

/// Maximum number of events that are read for one batch.
const MAX_ITEMS: u32 = 100_000;

/// Queue of runs to load.
#[derive(Debug, Default)]
pub(crate) struct Loader {
    queue: Mutex<Vec<(Run, Seat)>>,
    bell: Notify,
}

impl Loader {
    pub(crate) fn push(&self, run: Run, seat: Seat) {
        self.queue.lock().expect("nothing panics under this lock").push((run, seat));
        self.bell.notify_one();
    }

    fn take(&self) -> Vec<(Run, Seat)> {
        std::mem::take(&mut *self.queue.lock().expect("nothing panics under this lock"))
    }

    /// Loads queued runs until the engine stops.
    pub(crate) async fn run(&self, shared: &Arc<Shared>) {
        loop {
            let runs = self.take();
            if runs.is_empty() {
                self.bell.notified().await;
                continue;
            }
            match load(&*shared.store, runs.iter().map(|(run, _)| run)).await {
                Ok(mut loaded) => {
                    for (run, seat) in runs {
                        let loaded = loaded.remove(&run.id.seq).unwrap_or_default();
                        shared.start(run, seat, loaded);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, runs = runs.len(), "loading leased runs failed");
                    self.queue.lock().expect("nothing panics under this lock").extend(runs);
                    shared.pause().await;
                }
            }
        }
    }
}

/// Rows that the handler of a run starts from.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// Event of the run, or all events of its batch.
    pub(crate) events: Vec<Event>,
    /// Recorded steps.
    pub(crate) steps: Vec<Step>,
    /// The run that this run compensates, with its recorded steps.
    pub(crate) undoes: Option<(Ended, Vec<Step>)>,
}

/// Reads the rows that the handlers of these runs start from.
pub(crate) async fn load<'a>(
    store: &dyn Store,
    runs: impl IntoIterator<Item = &'a Run>,
) -> Result<BTreeMap<Seq, Loaded>, StoreError> {
    let mut reads = ReadSet::default();
    let runs: Vec<&Run> = runs.into_iter().collect();
    let runs = || runs.iter().copied();
    for run in runs() {
        reads = reads.row(RowKey::Event(run.source.first().seq));
        reads = reads.scan(Scan::Steps(run.id.seq), MAX_STEPS);
        if let Purpose::Compensates(old) = run.purpose {
            reads = reads.row(RowKey::Ended(old.seq)).scan(Scan::Steps(old.seq), MAX_STEPS);
        }
        if let Source::Batch(_) = run.source {
            reads = reads.scan(Scan::Items(run.batch().seq), MAX_ITEMS);
        }
    }
    let snapshot = store.read(reads).await?;
    let items = |run: &Run| -> Vec<Seq> {
        let rows = snapshot.found(&Scan::Items(run.batch().seq)).into_iter();
        rows.filter_map(|row| if let Row::Item(item) = row { Some(item.event.seq) } else { None })
            .collect()
    };
    let batches: BTreeMap<Seq, Vec<Seq>> =
        runs().map(|run| (run.id.seq, items(run))).filter(|(_, items)| !items.is_empty()).collect();
    let wanted = batches.values().flatten().map(|event| RowKey::Event(*event));
    let wanted = wanted.fold(ReadSet::default(), ReadSet::row);
    let more = if wanted.is_empty() { Snapshot::default() } else { store.read(wanted).await? };
    let event = |seq: Seq| {
        let key = RowKey::Event(seq);
        let row = snapshot.rows.get(&key).or_else(|| more.rows.get(&key)).cloned().flatten();
        if let Some(Row::Event(event)) = row { Some(event) } else { None }
    };
    let mut loaded = BTreeMap::new();
    for run in runs() {
        let events = match batches.get(&run.id.seq) {
            Some(items) => items.iter().filter_map(|item| event(*item)).collect(),
            None => event(run.source.first().seq).into_iter().collect(),
        };
        let steps = |run: Seq| {
            let rows = snapshot.found(&Scan::Steps(run)).into_iter();
            rows.filter_map(|row| if let Row::Step(it) = row { Some(it.clone()) } else { None })
                .collect()
        };
        let undoes = match run.purpose {
            Purpose::Compensates(old) => match snapshot.rows.get(&RowKey::Ended(old.seq)) {
                Some(Some(Row::Ended(ended))) => Some((ended.clone(), steps(old.seq))),
                _ => None,
            },
            Purpose::Ordinary | Purpose::OnFailure(_) => None,
        };
        loaded.insert(run.id.seq, Loaded { events, steps: steps(run.id.seq), undoes });
    }
    Ok(loaded)
}

/// Prefetched inputs of the runs that are next in a queue. They are read in the transaction that
/// may lease these runs, so that handing on a slot of a busy key needs no further read.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// Sequence numbers of inputs to read in the next transaction that leases runs.
    wanted: BTreeSet<Seq>,
    /// Inputs that were read and not used yet. This is only a cache: an input that is not here is
    /// read when its run is loaded.
    here: BTreeMap<Seq, Event>,
}

/// Maximum number of prefetched inputs, and maximum size of one.
const MAX_AHEAD: usize = 64;
const MAX_AHEAD_BYTES: usize = 16 * 1024;

/// Maximum number of queues for which inputs are prefetched. With more queues, their next runs do
/// not start immediately, and one read loads the inputs of all of them.
const MAX_LINES: usize = 8;

impl Ahead {
    /// Takes the sequence numbers of the inputs to read now.
    pub(crate) fn take(&mut self) -> Vec<Seq> {
        std::mem::take(&mut self.wanted).into_iter().collect()
    }

    /// Stores the inputs that a transaction has read, adds the inputs of the leased runs to `seen`,
    /// and notes which inputs to read next.
    pub(crate) fn saw(
        &mut self,
        read: &[Seq],
        runs: &[(WorkerKind, Run)],
        seen: &mut CommitEffects,
    ) {
        for seq in read {
            if let Some(event) = seen.events.get(seq)
                && event.data.as_str().len() <= MAX_AHEAD_BYTES
            {
                self.here.insert(*seq, event.clone());
            }
        }
        for (_, run) in runs {
            let input = run.source.first().seq;
            if let Some(event) = self.here.remove(&input) {
                seen.events.insert(input, event);
            }
        }
        if seen.next.len() <= MAX_LINES {
            let next = seen.next.values().filter(|input| !self.here.contains_key(input));
            self.wanted.extend(next);
        }
        while self.here.len() > MAX_AHEAD {
            self.here.pop_first();
        }
    }
}

/// Returns the rows that a run starts from, if the run was just admitted and no read is needed.
pub(crate) fn at_hand(run: &Run, events: &BTreeMap<Seq, Event>) -> Option<Loaded> {
    let fresh = run.fence == 1 && run.replay_of.is_none() && run.purpose == Purpose::Ordinary;
    let event = events.get(&run.source.first().seq)?;
    let alone = matches!(run.source, Source::Event(_));
    (fresh && alone).then(|| Loaded { events: vec![event.clone()], ..Loaded::default() })
}
