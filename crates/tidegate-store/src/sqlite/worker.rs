//! Thread that owns a connection and runs one job after another.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread::{self, JoinHandle},
};

use tokio::sync::{mpsc, oneshot};

use crate::StoreError;

/// Capacity of the thread's queue. Further callers wait until there is space. The committer needs
/// only one entry.
const QUEUE: usize = 256;

type Job<T> = Box<dyn FnOnce(&mut T) + Send>;

/// Handle of a thread that owns a `T` and runs jobs on it.
#[derive(Debug)]
pub(super) struct Worker<T> {
    jobs: Option<mpsc::Sender<Job<T>>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: 'static> Worker<T> {
    /// Starts the thread, which first creates the value it owns.
    pub(super) async fn start(
        name: &str,
        make: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Result<Self, StoreError> {
        let (jobs, mut inbox) = mpsc::channel::<Job<T>>(QUEUE);
        let (opened, is_open) = oneshot::channel();
        let serve = move || {
            let mut owned = match make() {
                Ok(owned) => owned,
                Err(error) => return drop(opened.send(Err(error))),
            };
            // The caller no longer waits, because opening the store was cancelled.
            if opened.send(Ok(())).is_err() {
                return;
            }
            while let Some(job) = inbox.blocking_recv() {
                job(&mut owned);
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(serve);
        let thread = thread.map_err(|error| StoreError::Unavailable(error.to_string().into()))?;
        let worker = Self { jobs: Some(jobs), thread: Some(thread) };
        is_open.await.map_err(|_| gone())??;
        Ok(worker)
    }

    /// Runs a function on the thread and waits for its result.
    ///
    /// The function runs even if the caller stops waiting. A panic is passed to the caller, and the
    /// thread continues.
    pub(super) async fn call<A: Send + 'static>(
        &self,
        act: impl FnOnce(&mut T) -> Result<A, StoreError> + Send + 'static,
    ) -> Result<A, StoreError> {
        let (answer, answered) = oneshot::channel();
        let job: Job<T> = Box::new(move |owned| {
            let outcome = catch_unwind(AssertUnwindSafe(|| act(owned)));
            // The send fails if the caller's future was dropped; that is no error.
            drop(answer.send(outcome));
        });
        self.jobs.as_ref().ok_or_else(gone)?.send(job).await.map_err(|_| gone())?;
        match answered.await.map_err(|_| gone())? {
            Ok(outcome) => outcome,
            Err(panic) => resume_unwind(panic),
        }
    }
}

impl<T> Drop for Worker<T> {
    /// Waits until all queued jobs are done and the connection is closed.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable("the thread of the database has ended".into())
}
