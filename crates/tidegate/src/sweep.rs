//! Timer loop: flushes expired windows, wakes sleeping runs, continues chores, and caps due times
//! after the store's clock has stepped back.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tidegate_core::{
    reads::{ReadSet, Scan, Snapshot},
    row::{Row, Run, Workspace},
    run::sweep::look,
    time::Timestamp,
};

use crate::{engine::Shared, error::Error};

/// Maximum number of due rows of each kind that one read returns.
const DUE: u32 = 1000;

/// Interval at which the store's clock is checked while a row is due soon.
const CLOCK: Duration = Duration::from_secs(1);

/// A row that is due within this time counts as due soon: a delay of it would be noticed.
const SOON: Duration = Duration::from_secs(60);

/// Processes rows when they are due. The same reads also poll, from time to time, for ready runs,
/// work of reactions and new definitions of which this engine got no wake-up.
pub(crate) async fn run(shared: &Arc<Shared>) {
    let (timer, interval) = (&*shared.timer, shared.options.poll);
    let (mut clock, mut polled) = (None, timer.elapsed());
    loop {
        let polls = timer.elapsed() >= polled + interval;
        let next = match sweep(shared, &mut clock, polls).await {
            Ok(next) => next,
            Err(error) => {
                tracing::warn!(%error, "sweep failed, retrying");
                shared.pause().await;
                Some(Duration::ZERO)
            }
        };
        let now = timer.elapsed();
        if polls {
            polled = now;
        }
        shared.alarm.set(wake_up(now, next, polled + interval));
        shared.alarm.ring(timer).await;
    }
}

/// Returns the time of the next sweep: the next due time, or the next poll.
fn wake_up(now: Duration, next: Option<Duration>, poll: Duration) -> Duration {
    next.map_or(poll, |next| poll.min(now + until_look(next)))
}

/// Returns the time until the sweep that handles a row due after this time. While a row is due
/// soon, the sweep runs more often to check the clock: a step back that is noticed only at the due
/// time would delay the row by another period.
pub(crate) fn until_look(due: Duration) -> Duration {
    if due <= SOON { due.min(CLOCK) } else { due }
}

/// Processes due rows. Returns the time until the next row is due. `clock` is the store's time at
/// the last sweep.
async fn sweep(
    shared: &Arc<Shared>,
    clock: &mut Option<Timestamp>,
    polls: bool,
) -> Result<Option<Duration>, Error> {
    let polled = if polls { Polled::of(shared) } else { Polled::default() };
    let mut pages = Pages::default();
    let mut snapshot = shared.store.read(polled.reads(pages.reads())).await?;
    polled.tell(shared, &snapshot);
    let now = snapshot.now;
    // The first sweep counts as a step, too: the clock may have stepped back while no engine was
    // running.
    let stepped = clock.is_none_or(|last| now < last);
    if stepped {
        // The next claims cap the times of reaction positions that were written before the step.
        shared.reactions.look();
    }
    let mut looked = Looked::default();
    loop {
        looked.look(shared, pages.found(&snapshot), now, stepped).await;
        // After a step, the due times of all rows are capped, so all pages are read. Otherwise the
        // next sweep reads the rows after the first page, unless rows of this page failed and would
        // block it.
        let last = if stepped { Timestamp::MAX } else { now };
        let failed = looked.failed.is_some();
        if !(stepped || failed) || !pages.turn(&snapshot, last) {
            break;
        }
        snapshot = shared.store.read(pages.reads()).await?;
    }
    if let Some(error) = looked.failed {
        return Err(error);
    }
    *clock = Some(now);
    if looked.busy {
        // Sweep again at once: processed rows may have made others due, and more may be due than
        // were read.
        return Ok(Some(Duration::ZERO));
    }
    let until = |due: Timestamp| due.micros().saturating_sub(now.micros()).max(0);
    Ok(looked.next.map(|due| Duration::from_micros(until(due).unsigned_abs())))
}

/// Results of the rows that a sweep has processed.
#[derive(Default)]
struct Looked {
    /// Earliest future due time.
    next: Option<Timestamp>,
    /// Whether any row was due.
    busy: bool,
    /// Error of the last row that could not be processed.
    failed: Option<Error>,
}

impl Looked {
    /// Processes the due rows concurrently. A row that fails does not stop the others.
    async fn look(
        &mut self,
        shared: &Arc<Shared>,
        rows: impl Iterator<Item = &Row>,
        now: Timestamp,
        stepped: bool,
    ) {
        let mut asked = Vec::new();
        for (due, command) in rows.filter_map(|row| look(row, now, stepped)) {
            if due <= now {
                asked.push(shared.ask(command));
            } else {
                self.next = self.next.map(|next| next.min(due)).or(Some(due));
            }
        }
        self.busy |= !asked.is_empty();
        for answer in asked {
            self.failed = answer.await.err().or(self.failed.take());
        }
    }
}

/// Function that returns the scan for rows of one kind with due times from a time on.
type Due = fn(Timestamp) -> Scan;

/// Pages of rows with due times, earliest first: gates, runs and chores.
struct Pages {
    /// Kinds that may have more rows, each with the due time at which its page starts.
    from: Vec<(Due, Timestamp)>,
    /// Maximum number of rows of each kind on a page.
    limit: u32,
}

impl Default for Pages {
    fn default() -> Self {
        let kinds: [Due; 3] = [Scan::DueGates, Scan::DueRuns, Scan::DueChores];
        Self { from: kinds.map(|kind| (kind, Timestamp::MIN)).to_vec(), limit: DUE }
    }
}

impl Pages {
    fn reads(&self) -> ReadSet {
        let scans = self.from.iter().map(|(kind, from)| kind(*from));
        scans.fold(ReadSet::default(), |reads, scan| reads.scan(scan, self.limit))
    }

    fn found<'a>(&'a self, snapshot: &'a Snapshot) -> impl Iterator<Item = &'a Row> {
        self.from.iter().flat_map(|(kind, from)| snapshot.found(&kind(*from)))
    }

    /// Advances to the next pages, of rows that are due at `last` or before. Returns `false` if
    /// there are none. A page starts with the due time at which the previous one ended. It is
    /// larger if all rows of the previous page have the same due time.
    fn turn(&mut self, snapshot: &Snapshot, last: Timestamp) -> bool {
        let mut limit = DUE;
        let mut next = |(kind, from): &(Due, Timestamp)| {
            let rows = snapshot.found(&kind(*from));
            let (first, due) = (due_of(rows.first()?)?, due_of(rows.last()?)?);
            if rows.len() < self.limit as usize || due > last {
                return None;
            }
            if first == due {
                limit = self.limit.saturating_mul(2);
            }
            Some((*kind, due))
        };
        self.from = self.from.iter().filter_map(&mut next).collect();
        self.limit = limit;
        !self.from.is_empty()
    }
}

fn due_of(row: &Row) -> Option<Timestamp> {
    if let Row::Chore(chore) = row {
        return chore.due;
    }
    row.as_gate().map_or_else(|| row.as_run().and_then(Run::due), |gate| gate.due)
}

/// Additional reads for a poll. They take no locks and write nothing: on PostgreSQL, an idle engine
/// uses transaction ids only for its heartbeats.
#[derive(Default)]
struct Polled {
    ready: Vec<Scan>,
    work: Vec<Scan>,
    /// Workspaces whose definitions may change.
    followed: Vec<Workspace>,
}

impl Polled {
    fn of(shared: &Shared) -> Self {
        let runners = shared.reactions.runners();
        let followed = shared.stored.workspaces.iter().filter(|_| shared.stored.follows());
        Self {
            ready: shared.claims().into_iter().map(Scan::Ready).collect(),
            work: runners.map(|runner| runner.scan()).collect(),
            followed: followed.cloned().collect(),
        }
    }

    fn reads(&self, reads: ReadSet) -> ReadSet {
        // One row is enough to show that there is work.
        let scans = self.ready.iter().chain(&self.work);
        let reads = scans.fold(reads, |reads, scan| reads.scan(scan.clone(), 1));
        self.followed.iter().fold(reads, ReadSet::catalog)
    }

    /// Wakes the tasks that have work. Definitions are handled by a task of their own.
    fn tell(&self, shared: &Shared, snapshot: &Snapshot) {
        let found = |scans: &[Scan]| scans.iter().any(|scan| !snapshot.found(scan).is_empty());
        let ready = self.ready.iter().flat_map(|scan| snapshot.found(scan));
        let ready: BTreeSet<Workspace> =
            ready.filter_map(Row::as_run).map(|run| run.ws.clone()).collect();
        if !ready.is_empty() {
            shared.have_work(&ready);
            shared.committer.look();
        }
        if found(&self.work) {
            shared.reactions.look();
        }
        if !self.ready.is_empty() {
            shared.look_at_own();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, wake_up};

    #[test]
    fn the_clock_is_watched_while_something_is_due_soon() {
        let s = Duration::from_secs;
        for (next, poll, looks) in [
            (None, 115, 115),
            (Some(0), 115, 100),
            (Some(30), 115, 101),
            (Some(60), 115, 101),
            // A run that sleeps for longer does not cost a transaction per second.
            (Some(61), 115, 115),
            (Some(61), 1000, 161),
        ] {
            assert_eq!(wake_up(s(100), next.map(s), s(poll)), s(looks), "{next:?}, {poll}");
        }
    }
}
