//! Loading what a leased run starts from: its inputs and the steps that are recorded.
//!
//! Loads gather like commits do: many runs, one read.

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

/// The most steps of one run. A run that needs more is several runs.
pub const MAX_STEPS: u32 = 10_000;

/// The most events of one batch that are read.
const MAX_ITEMS: u32 = 100_000;

/// Runs that have to be loaded.
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

    /// Loads what comes, for as long as the engine lives.
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
                    tracing::warn!(%error, runs = runs.len(), "leased runs could not be loaded");
                    self.queue.lock().expect("nothing panics under this lock").extend(runs);
                    shared.pause().await;
                }
            }
        }
    }
}

/// What a run starts from.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// Its input, or all inputs of its batch.
    pub(crate) events: Vec<Event>,
    /// What it has recorded.
    pub(crate) steps: Vec<Step>,
    /// The run that it undoes, and what that has recorded.
    pub(crate) undoes: Option<(Ended, Vec<Step>)>,
}

/// Reads what runs start from.
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

/// Inputs of runs that stand next in a line: read along with the transaction that may lease them,
/// so that a hot key is handed on without a read in between.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// To be read along with the next transaction that leases runs.
    wanted: BTreeSet<Seq>,
    /// Read, and not needed yet. Only a cache: whoever is not found here is read as always.
    here: BTreeMap<Seq, Event>,
}

/// How many inputs are kept ahead at the most, and how large each may be.
const MAX_AHEAD: usize = 64;
const MAX_AHEAD_BYTES: usize = 16 * 1024;

/// Where more lines than these move at once, those who are next are not driven at once: their
/// inputs are read together when they are.
const MAX_LINES: usize = 8;

impl Ahead {
    /// What to read along now.
    pub(crate) fn take(&mut self) -> Vec<Seq> {
        std::mem::take(&mut self.wanted).into_iter().collect()
    }

    /// Remembers what a transaction has read along and who is next, and gives out what the runs
    /// that it leased start from.
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

/// What a run that has just been admitted starts from, if that is known without reading.
pub(crate) fn at_hand(run: &Run, events: &BTreeMap<Seq, Event>) -> Option<Loaded> {
    let fresh = run.fence == 1 && run.replay_of.is_none() && run.purpose == Purpose::Ordinary;
    let event = events.get(&run.source.first().seq)?;
    let alone = matches!(run.source, Source::Event(_));
    (fresh && alone).then(|| Loaded { events: vec![event.clone()], ..Loaded::default() })
}
