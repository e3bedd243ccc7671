//! What the world notes of itself while it runs, to be held against its promises at the end.
//!
//! Numbers, one for each key of a theme, and the runs that were promised of late: it does not grow
//! with time.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tidegate::{
    Ctx, RunId,
    store::{Clock as _, SystemClock},
};

/// How many broken promises are kept: one is enough to fail.
const MOST_BROKEN: usize = 10;

/// How many promised runs are remembered, the newest: an hour and more of traffic.
const MOST_PROMISED: usize = 100_000;

/// A theme, and a key in it.
type Key = (&'static str, String);

/// The notes of a world.
#[derive(Debug)]
pub(super) struct Ledger {
    began: Instant,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    promised: BTreeSet<RunId>,
    counts: BTreeMap<&'static str, Count>,
    /// How many are inside now; who has nobody inside is not there.
    inside: BTreeMap<Key, u32>,
    /// How many were inside of one key at the most.
    most: BTreeMap<&'static str, u32>,
    waits: BTreeMap<Key, Waits>,
    laps: BTreeMap<&'static str, (Instant, u32)>,
    last: BTreeMap<Key, [u64; 2]>,
    broken: Vec<String>,
}

/// How often something happened, and for how long the world was there by the last time.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    times: u64,
    until: Duration,
}

/// How long runs waited before they started.
#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    runs: u32,
    all: Duration,
}

impl Ledger {
    /// The notes of a world that begins.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { began: Instant::now(), notes: Mutex::default() })
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody was told that this run carries, or will carry, what was sent.
    pub(super) fn promise(&self, run: RunId) {
        let promised = &mut self.notes().promised;
        promised.insert(run);
        if promised.len() > MOST_PROMISED {
            promised.pop_first();
        }
    }

    /// Something happened so many times.
    pub(super) fn count(&self, what: &'static str, times: usize) {
        let until = self.began.elapsed();
        let mut notes = self.notes();
        let count = notes.counts.entry(what).or_default();
        *count = Count { times: count.times + times as u64, until };
    }

    /// Somebody goes in, until what this returns is dropped.
    pub(super) fn enter(self: &Arc<Self>, what: &'static str, key: &str) -> Visit {
        self.go_in(what, key);
        Visit { ledger: self.clone(), key: (what, key.to_owned()) }
    }

    /// Somebody goes in, until [`Ledger::go_out`].
    pub(super) fn go_in(&self, what: &'static str, key: &str) {
        let mut notes = self.notes();
        let inside = notes.inside.entry((what, key.to_owned())).or_default();
        *inside += 1;
        let now = *inside;
        let most = notes.most.entry(what).or_default();
        *most = now.max(*most);
    }

    /// And out again.
    pub(super) fn go_out(&self, what: &'static str, key: &str) {
        if let Entry::Occupied(mut inside) = self.notes().inside.entry((what, key.to_owned())) {
            *inside.get_mut() -= 1;
            if *inside.get() == 0 {
                inside.remove();
            }
        }
    }

    /// A run starts: how long it has waited since it was asked for.
    pub(super) fn starts(&self, what: &'static str, key: &str, ctx: &Ctx) {
        let micros = SystemClock.now().micros() - ctx.event().at.micros();
        let waited = Duration::from_micros(u64::try_from(micros).unwrap_or_default());
        let mut notes = self.notes();
        let waits = notes.waits.entry((what, key.to_owned())).or_default();
        waits.runs += 1;
        waits.all += waited;
    }

    /// A new burst of something begins.
    pub(super) fn begin_lap(&self, what: &'static str) {
        self.notes().laps.insert(what, (Instant::now(), 0));
    }

    /// One of it happens: how long after the burst began, and which one of it this is.
    pub(super) fn lap(&self, what: &'static str) -> (Duration, u32) {
        let mut notes = self.notes();
        let (began, count) = notes.laps.entry(what).or_insert((self.began, 0));
        *count += 1;
        (began.elapsed(), *count)
    }

    /// The newest of its kind was sent.
    pub(super) fn newest_sent(&self, what: &'static str, key: &str, n: u64) {
        self.notes().last.entry((what, key.to_owned())).or_default()[0] = n;
    }

    /// And the newest that has arrived.
    pub(super) fn newest_done(&self, what: &'static str, key: &str, n: u64) {
        self.notes().last.entry((what, key.to_owned())).or_default()[1] = n;
    }

    /// A promise was not kept, as somebody could see at once.
    pub(super) fn broken(&self, what: &'static str, how: &str) {
        let broken = &mut self.notes().broken;
        if broken.len() < MOST_BROKEN {
            broken.push(format!("{what}: {how}"));
        }
    }
}

/// Looking at the notes.
impl Ledger {
    /// The runs that somebody was told of.
    pub(super) fn promised(&self) -> BTreeSet<RunId> {
        self.notes().promised.clone()
    }

    /// How often something happened.
    pub(super) fn counted(&self, what: &'static str) -> u64 {
        self.notes().counts.get(what).copied().unwrap_or_default().times
    }

    /// How long it was from the beginning to the last time.
    pub(super) fn until_last(&self, what: &'static str) -> Duration {
        self.notes().counts.get(what).copied().unwrap_or_default().until
    }

    /// The most that were inside at once, of any key; 0 if nobody ever was.
    pub(super) fn most(&self, what: &'static str) -> u32 {
        self.notes().most.get(what).copied().unwrap_or_default()
    }

    /// How long runs of a key waited, in the mean; none if there were none.
    pub(super) fn mean_wait(&self, what: &'static str, key: &str) -> Option<Duration> {
        let notes = self.notes();
        let waits = notes.waits.get(&(what, key.to_owned()))?;
        waits.all.checked_div(waits.runs)
    }

    /// The keys whose newest has not arrived.
    pub(super) fn behind(&self, what: &'static str) -> Vec<String> {
        let notes = self.notes();
        let of = notes.last.iter().filter(|((it, _), [sent, done])| *it == what && sent != done);
        of.map(|((_, key), [sent, done])| format!("{key} ({done} of {sent})")).collect()
    }

    /// Promises that were seen broken.
    pub(super) fn all_broken(&self, what: &'static str) -> Vec<String> {
        let notes = self.notes();
        notes.broken.iter().filter(|it| it.starts_with(what)).cloned().collect()
    }
}

/// Somebody is inside.
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
