//! Ledger: observations of the demo while it runs, for the checks at the end.
//!
//! It has one number per theme and key, and a limited number of run ids, so its size is bounded.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tidegate::{Ctx, RunId, Timestamp};
use tidegate_store::{Clock as _, SystemClock};

/// Maximum number of recorded violations: one is enough to fail.
const MOST_BROKEN: usize = 10;

/// Maximum number of promised runs to remember. The oldest are dropped; these are more than an hour
/// of traffic.
const MOST_PROMISED: usize = 100_000;

/// Maximum number of spans of a theme to remember. The oldest are dropped.
const MOST_SPANS: usize = 1000;

/// Name of a theme, and a key in it, such as an account.
type Key = (&'static str, String);

/// Observations of a demo.
#[derive(Debug)]
pub(super) struct Ledger {
    began: Instant,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    promised: BTreeSet<RunId>,
    counts: BTreeMap<&'static str, Count>,
    /// Number of runs inside per key; keys without runs are absent.
    inside: BTreeMap<Key, u32>,
    /// Per theme, the maximum number of runs that were inside one key at the same time.
    most: BTreeMap<&'static str, u32>,
    waits: BTreeMap<Key, Waits>,
    laps: BTreeMap<&'static str, (Instant, u32)>,
    last: BTreeMap<Key, [u64; 2]>,
    watched: BTreeMap<&'static str, BTreeSet<RunId>>,
    spans: BTreeMap<&'static str, Vec<(Timestamp, Timestamp)>>,
    broken: Vec<String>,
}

/// Number of occurrences, and the time from the start of the demo to the last one.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    times: u64,
    until: Duration,
}

/// Number of started runs, and the sum of their waiting times.
#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    runs: u32,
    all: Duration,
}

impl Ledger {
    /// Creates the ledger of a new demo.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { began: Instant::now(), notes: Mutex::default() })
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the run id that the answer to an event named. This run processes the event, or will.
    pub(super) fn promise(&self, run: RunId) {
        let promised = &mut self.notes().promised;
        promised.insert(run);
        if promised.len() > MOST_PROMISED {
            promised.pop_first();
        }
    }

    /// Adds to the number of occurrences of `what`.
    pub(super) fn count(&self, what: &'static str, times: usize) {
        let until = self.began.elapsed();
        let mut notes = self.notes();
        let count = notes.counts.entry(what).or_default();
        *count = Count { times: count.times + times as u64, until };
    }

    /// Records that a run is inside a key, until the returned value is dropped.
    pub(super) fn enter(self: &Arc<Self>, what: &'static str, key: &str) -> Visit {
        self.go_in(what, key);
        Visit { ledger: self.clone(), key: (what, key.to_owned()) }
    }

    /// Records that a run is inside a key, until [`Ledger::go_out`].
    pub(super) fn go_in(&self, what: &'static str, key: &str) {
        let mut notes = self.notes();
        let inside = notes.inside.entry((what, key.to_owned())).or_default();
        *inside += 1;
        let now = *inside;
        let most = notes.most.entry(what).or_default();
        *most = now.max(*most);
    }

    /// Records that a run has left a key.
    pub(super) fn go_out(&self, what: &'static str, key: &str) {
        if let Entry::Occupied(mut inside) = self.notes().inside.entry((what, key.to_owned())) {
            *inside.get_mut() -= 1;
            if *inside.get() == 0 {
                inside.remove();
            }
        }
    }

    /// Records that a run has started, and how long it waited since its event.
    pub(super) fn starts(&self, what: &'static str, key: &str, ctx: &Ctx) {
        let micros = SystemClock.now().micros() - ctx.event().at.micros();
        let waited = Duration::from_micros(u64::try_from(micros).unwrap_or_default());
        let mut notes = self.notes();
        let waits = notes.waits.entry((what, key.to_owned())).or_default();
        waits.runs += 1;
        waits.all += waited;
    }

    /// Begins a new burst.
    pub(super) fn begin_lap(&self, what: &'static str) {
        self.notes().laps.insert(what, (Instant::now(), 0));
    }

    /// Counts one occurrence in the current burst. Returns the time since the burst began, and the
    /// number of occurrences in it.
    pub(super) fn lap(&self, what: &'static str) -> (Duration, u32) {
        let mut notes = self.notes();
        let (began, count) = notes.laps.entry(what).or_insert((self.began, 0));
        *count += 1;
        (began.elapsed(), *count)
    }

    /// Records the newest value that was sent.
    pub(super) fn newest_sent(&self, what: &'static str, key: &str, n: u64) {
        self.notes().last.entry((what, key.to_owned())).or_default()[0] = n;
    }

    /// Records the newest value that was processed.
    pub(super) fn newest_done(&self, what: &'static str, key: &str, n: u64) {
        self.notes().last.entry((what, key.to_owned())).or_default()[1] = n;
    }

    /// Records a run whose start is checked at the end.
    pub(super) fn watch(&self, what: &'static str, run: RunId) {
        let mut notes = self.notes();
        let runs = notes.watched.entry(what).or_default();
        runs.insert(run);
        if runs.len() > MOST_PROMISED {
            runs.pop_first();
        }
    }

    /// Records a span of time in which something was in force.
    pub(super) fn span(&self, what: &'static str, from: Timestamp, to: Timestamp) {
        let mut notes = self.notes();
        let spans = notes.spans.entry(what).or_default();
        if spans.len() == MOST_SPANS {
            spans.remove(0);
        }
        spans.push((from, to));
    }

    /// Records a violation that was observed directly.
    pub(super) fn broken(&self, what: &'static str, how: &str) {
        let broken = &mut self.notes().broken;
        if broken.len() < MOST_BROKEN {
            broken.push(format!("{what}: {how}"));
        }
    }
}

/// Methods for the checks.
impl Ledger {
    /// Returns the runs that were recorded by [`Ledger::promise`].
    pub(super) fn promised(&self) -> BTreeSet<RunId> {
        self.notes().promised.clone()
    }

    /// Returns the number of occurrences.
    pub(super) fn counted(&self, what: &'static str) -> u64 {
        self.notes().counts.get(what).copied().unwrap_or_default().times
    }

    /// Returns the time from the start of the demo to the last occurrence.
    pub(super) fn until_last(&self, what: &'static str) -> Duration {
        self.notes().counts.get(what).copied().unwrap_or_default().until
    }

    /// Returns the maximum number of runs inside one key at the same time; 0 if there was none.
    pub(super) fn most(&self, what: &'static str) -> u32 {
        self.notes().most.get(what).copied().unwrap_or_default()
    }

    /// Returns the mean waiting time of the runs of a key, or `None` if there were none.
    pub(super) fn mean_wait(&self, what: &'static str, key: &str) -> Option<Duration> {
        let notes = self.notes();
        let waits = notes.waits.get(&(what, key.to_owned()))?;
        waits.all.checked_div(waits.runs)
    }

    /// Returns the keys whose newest value was sent but not processed.
    pub(super) fn behind(&self, what: &'static str) -> Vec<String> {
        let notes = self.notes();
        let of = notes.last.iter().filter(|((it, _), [sent, done])| *it == what && sent != done);
        of.map(|((_, key), [sent, done])| format!("{key} ({done} of {sent})")).collect()
    }

    /// Returns the runs that were recorded by [`Ledger::watch`].
    pub(super) fn watched(&self, what: &'static str) -> BTreeSet<RunId> {
        self.notes().watched.get(what).cloned().unwrap_or_default()
    }

    /// Returns the spans that were recorded by [`Ledger::span`].
    pub(super) fn spans(&self, what: &'static str) -> Vec<(Timestamp, Timestamp)> {
        self.notes().spans.get(what).cloned().unwrap_or_default()
    }

    /// Returns the recorded violations.
    pub(super) fn all_broken(&self, what: &'static str) -> Vec<String> {
        let notes = self.notes();
        notes.broken.iter().filter(|it| it.starts_with(what)).cloned().collect()
    }
}

/// A run inside a key. Dropping it records that the run has left.
#[derive(Debug)]
pub(super) struct Visit {
    ledger: Arc<Ledger>,
    key: Key,
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.ledger.go_out(self.key.0, &self.key.1);
    }
}
