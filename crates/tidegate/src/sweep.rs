//! The timer loop: flushes expired windows, wakes sleeping runs, goes on with chores, and caps due
//! times after the store's clock has stepped back.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tidegate_core::{
    reads::{ReadSet, Scan, Snapshot},
    row::{Row, Workspace},
    run::sweep::look,
    time::Timestamp,
};

use crate::{engine::Shared, error::Error};

/// How many due rows of each kind are read at once.
const DUE: u32 = 1000;

/// How many are read after the clock has stepped back, to cap their times. Those beyond keep the
/// times that were stored.
const STEPPED: u32 = 20_000;

/// How often the clock is looked at while something is due soon.
const CLOCK: Duration = Duration::from_secs(1);

/// What is due so soon would be felt to be late.
const SOON: Duration = Duration::from_secs(60);

/// Does what is due when it is due. Polls as well, in the same transactions: looks now and then for
/// ready runs, work of reactions and definitions that nobody has told this engine of.
pub(crate) async fn run(shared: &Arc<Shared>) {
    let (timer, interval) = (&*shared.timer, shared.options.poll);
    let (mut clock, mut polled) = (None, timer.elapsed());
    loop {
        let polls = timer.elapsed() >= polled + interval;
        let next = match sweep(shared, &mut clock, polls).await {
            Ok(next) => next,
            Err(error) => {
                tracing::warn!(%error, "the sweep failed and is tried again");
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

/// When to look again: when the next is due, and when it is time for a poll.
fn wake_up(now: Duration, next: Option<Duration>, poll: Duration) -> Duration {
    next.map_or(poll, |next| poll.min(now + until_look(next)))
}

/// When to look at something that is due so much later. While it is due soon, the clock is looked
/// at as well: were a step back noticed at the due time only, it would wait for another period.
pub(crate) fn until_look(due: Duration) -> Duration {
    if due <= SOON { due.min(CLOCK) } else { due }
}

/// Does what is due; says how long it is until the next. `clock` is the store's time at the last
/// sweep.
async fn sweep(
    shared: &Arc<Shared>,
    clock: &mut Option<Timestamp>,
    polls: bool,
) -> Result<Option<Duration>, Error> {
    let polled = if polls { Polled::of(shared) } else { Polled::default() };
    let mut snapshot = shared.store.read(polled.reads(due(DUE))).await?;
    polled.tell(shared, &snapshot);
    // At the start too: the clock may have stepped back while nobody looked.
    let stepped = clock.is_none_or(|last| snapshot.now < last);
    if stepped {
        snapshot = shared.store.read(due(STEPPED)).await?;
    }
    let now = snapshot.now;
    let mut next: Option<Timestamp> = None;
    let mut asked = Vec::new();
    for row in KINDS.iter().flat_map(|scan| snapshot.found(scan)) {
        let Some((due, command)) = look(row, now, stepped) else { continue };
        if due <= now {
            asked.push(shared.ask(command));
        } else {
            next = next.map(|next| next.min(due)).or(Some(due));
        }
    }
    let busy = !asked.is_empty();
    let mut failed = None;
    for answer in asked {
        // One that fails keeps no other from being done.
        failed = answer.await.err().or(failed);
    }
    if let Some(error) = failed {
        return Err(error);
    }
    *clock = Some(now);
    if busy {
        // What was done may have made more due, and there may be more than was read.
        return Ok(Some(Duration::ZERO));
    }
    let until = |due: Timestamp| due.micros().saturating_sub(now.micros()).max(0);
    Ok(next.map(|due| Duration::from_micros(until(due).unsigned_abs())))
}

/// The rows that time alone decides about.
const KINDS: [Scan; 3] = [Scan::DueGates, Scan::DueRuns, Scan::DueChores];

fn due(limit: u32) -> ReadSet {
    KINDS.into_iter().fold(ReadSet::default(), |reads, scan| reads.scan(scan, limit))
}

/// What a poll reads along. It locks nothing and writes nothing: an idle engine takes no transaction
/// ids from PostgreSQL but for its heartbeats.
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
        // One row says that there is something.
        let scans = self.ready.iter().chain(&self.work);
        let reads = scans.fold(reads, |reads, scan| reads.scan(scan.clone(), 1));
        self.followed.iter().fold(reads, ReadSet::catalog)
    }

    /// Wakes those who have something to do. Definitions are seen by their own task.
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
            // A run that sleeps for long costs no transaction a second.
            (Some(61), 115, 115),
            (Some(61), 1000, 161),
        ] {
            assert_eq!(wake_up(s(100), next.map(s), s(poll)), s(looks), "{next:?}, {poll}");
        }
    }
}
