//! Notifies callers of this process when a run that they wait for ends.

use std::{
    collections::{BTreeMap, VecDeque, btree_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tidegate_core::{
    id::{RunId, Seq},
    row::Ended,
};
use tokio::sync::oneshot;

/// Number of ended runs that are remembered.
const RECENT: usize = 1024;

/// Callers that wait for runs to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Endings(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    waiters: BTreeMap<Seq, Vec<oneshot::Sender<Ended>>>,
    /// Runs that ended last, for callers that subscribe just after the end.
    recent: VecDeque<Ended>,
}

/// Subscription of a caller to the end of one run. Dropping the subscription unregisters the
/// caller.
#[derive(Debug)]
pub(crate) struct Subscription {
    /// Resolves once, when the run ends through this engine.
    pub(crate) told: oneshot::Receiver<Ended>,
    endings: Endings,
    run: Seq,
}

impl Endings {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to the end of a run. If the run has just ended, the subscription resolves at
    /// once.
    pub(crate) fn subscribe(&self, run: RunId) -> Subscription {
        let (tell, told) = oneshot::channel();
        let mut inner = self.lock();
        if let Some(ended) = inner.recent.iter().find(|ended| ended.id == run) {
            let _ = tell.send(ended.clone());
        } else {
            inner.waiters.entry(run.seq).or_default().push(tell);
        }
        Subscription { told, endings: self.clone(), run: run.seq }
    }

    /// Notifies the callers that wait for these runs.
    pub(crate) fn tell(&self, ends: Vec<Ended>) {
        let mut waiting = Vec::new();
        let mut inner = self.lock();
        for ended in ends {
            let waiters = inner.waiters.remove(&ended.id.seq).into_iter().flatten();
            waiting.extend(waiters.map(|waiter| (waiter, ended.clone())));
            inner.recent.truncate(RECENT - 1);
            inner.recent.push_front(ended);
        }
        drop(inner);
        // The lock is released first: a notified caller drops its subscription, and that takes the
        // lock.
        for (waiter, ended) in waiting {
            let _ = waiter.send(ended);
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.told.close();
        let mut inner = self.endings.lock();
        if let Entry::Occupied(mut waiters) = inner.waiters.entry(self.run) {
            waiters.get_mut().retain(|waiter| !waiter.is_closed());
            if waiters.get().is_empty() {
                waiters.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::{future::Future, pin::pin, task::Poll, time::Duration};

    use serde_json::{Value, json};

    use crate::{Ctx, Engine, RunId, Workflow, testing::TestHarness};

    /// Returns the number of runs that callers wait for, and the number of these callers.
    fn registered(engine: &Engine) -> (usize, usize) {
        let inner = engine.shared().endings.lock();
        (inner.waiters.len(), inner.waiters.values().map(Vec::len).sum())
    }

    /// Polls a future once, checks that it is pending, and drops it.
    async fn begin_and_drop<T>(future: impl Future<Output = T>) {
        let mut future = pin!(future);
        let waits = std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending()));
        assert!(waits.await, "the future must be pending after the first poll");
    }

    async fn harness() -> (TestHarness, Engine, Vec<RunId>) {
        let harness = TestHarness::new();
        let nap = Workflow::new("nap", async |ctx: Ctx, input: Value| {
            ctx.sleep("nap", Duration::from_secs(60)).await?;
            Ok(input)
        });
        let engine = harness.engine().workflow(nap).start().await.unwrap();
        let mut runs = Vec::new();
        for n in 0..3 {
            runs.push(engine.send("nap", json!(n)).await.unwrap().run().unwrap());
        }
        harness.settle().await;
        (harness, engine, runs)
    }

    /// Clients of a server often abandon long polls: a registration for each would fill the memory.
    #[tokio::test]
    async fn a_dropped_wait_leaves_no_registration() {
        let (harness, engine, runs) = harness().await;
        for run in &runs {
            drop(engine.ended(*run));
            for _ in 0..10 {
                begin_and_drop(engine.ended(*run)).await;
                begin_and_drop(engine.output::<Value>(*run)).await;
            }
        }
        assert_eq!(registered(&engine), (0, 0));

        // Dropping one subscription does not remove the other subscriptions.
        let others: Vec<_> = [runs[0], runs[0], runs[1]]
            .into_iter()
            .map(|run| {
                let engine = engine.clone();
                tokio::spawn(async move { engine.ended(run).await.unwrap().id })
            })
            .collect();
        tokio::task::yield_now().await;
        assert_eq!(registered(&engine), (2, 3));
        begin_and_drop(engine.ended(runs[0])).await;
        begin_and_drop(engine.ended(runs[2])).await;
        assert_eq!(registered(&engine), (2, 3));
        harness.advance(Duration::from_secs(61)).await;
        for (other, run) in others.into_iter().zip([runs[0], runs[0], runs[1]]) {
            assert_eq!(other.await.unwrap(), run);
        }
        assert_eq!(
            registered(&engine),
            (0, 0),
            "no registration may remain after the runs have ended"
        );
    }

    /// A wait that is refused, or answered at once, leaves no registration.
    #[tokio::test]
    async fn a_wait_that_is_over_leaves_no_registration() {
        let (harness, engine, runs) = harness().await;
        let unknown = RunId { salt: runs[0].salt ^ 1, ..runs[0] };
        assert!(engine.ended(unknown).await.is_err());
        harness.advance(Duration::from_secs(61)).await;
        for run in &runs {
            assert_eq!(engine.ended(*run).await.unwrap().id, *run);
        }
        assert!(
            engine.ended(unknown).await.is_err(),
            "an id with a wrong salt must be unknown after the run's end, too"
        );
        assert_eq!(registered(&engine), (0, 0));
    }
}
