//! Group commit: commands gather while a transaction runs, and the next transaction takes all of
//! them.
//!
//! An idle engine adds no delay; a busy one needs one transaction for many commands. Each
//! transaction also leases runs for the workers that will be free after it: a run can be leased in
//! the transaction that makes it ready.

use std::{
    collections::VecDeque,
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll},
};

use tidegate_core::{
    command::{Answer, Command, Refusal},
    expected::Expected,
    id::Seq,
    run::record::Then,
};
use tidegate_store::{Answered, CommitEffects, SeededCommand, StoreError, commit_reading};
use tokio::sync::{Notify, oneshot};

use crate::{
    engine::Shared,
    error::Error,
    load::Ahead,
    telemetry,
    turns::{Lease, PerKind, WorkerKind},
};

/// Maximum number of commands in one transaction. More would make the transaction longer without
/// more throughput.
const MAX_BATCH: usize = 512;

/// Maximum number of events in one transaction; the last command may exceed it. A transaction takes
/// at most 4,000 rows, and deciding commands that do not fit would be wasted work.
const MAX_EVENTS: usize = 1800;

/// A command that waits for its transaction.
struct Pending {
    salted: SeededCommand,
    waiting: Waiting,
}

/// The caller of a command, which waits for the answer.
struct Waiting {
    /// Kind of the worker that becomes free when this command is committed, if any.
    ends: Option<WorkerKind>,
    reply: oneshot::Sender<Result<Answer, Error>>,
}

impl Pending {
    /// Returns the number of events of the command, or 1 for a command without events.
    fn weight(&self) -> usize {
        let mut command = &self.salted.0;
        while let Command::Once { command: inner, .. } | Command::Audited { command: inner, .. } =
            command
        {
            command = inner;
        }
        if let Command::Post { events, .. } = command { events.len() } else { 1 }
    }
}

/// Contents of one transaction.
struct Batch {
    pending: Vec<Pending>,
    leases: Vec<Lease>,
    /// Number of free workers for which these leases were requested, by kind.
    reserved: PerKind,
    /// Number of workers that are free after the transaction, by kind; `None` if it leases no runs.
    idle: Option<PerKind>,
    /// Sequence numbers of runs whose inputs are read in the same transaction.
    inputs: Vec<Seq>,
}

/// Queue of commands in front of the store.
#[derive(Default)]
pub(crate) struct Committer {
    queue: Mutex<Queue>,
    bell: Notify,
    /// The expected reads of the next transaction.
    expected: Mutex<Arc<Expected>>,
}

impl fmt::Debug for Committer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Committer").finish_non_exhaustive()
    }
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent of each other")]
struct Queue {
    pending: VecDeque<Pending>,
    /// Number of idle workers, by kind.
    free: PerKind,
    /// Whether there may be ready runs for which no lease was tried yet.
    look: bool,
    /// Whether leasing has stopped.
    closed: bool,
    /// Whether a transaction that leases runs is in flight.
    leasing: bool,
    /// Whether the engine is shut down: commands are dropped undecided.
    shut: bool,
    /// Whether all commands are refused.
    read_only: bool,
    /// Prefetched inputs of the next runs.
    ahead: Ahead,
}

impl Committer {
    pub(crate) fn new(free: PerKind) -> Self {
        Self { queue: Mutex::new(Queue { free, ..Queue::default() }), ..Self::default() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("nothing panics under this lock")
    }

    /// Queues a command. When the answer arrives, the command is durable. A worker that sends a
    /// report passes its kind.
    pub(crate) fn send(&self, salted: SeededCommand, worker: Option<WorkerKind>) -> Reply {
        let (reply, answer) = oneshot::channel();
        let ends = worker.filter(|_| match &salted.0 {
            Command::Record { report, .. } => report.then != Then::Continue,
            _ => false,
        });
        let mut queue = self.queue();
        if queue.read_only {
            let _ = reply.send(Err(Error::ReadOnly));
        } else if !queue.shut {
            // If the engine is shut down, `reply` is dropped instead, and the caller gets
            // `Error::ShutDown`.
            queue.pending.push_back(Pending { salted, waiting: Waiting { ends, reply } });
            self.bell.notify_one();
        }
        Reply(answer)
    }

    /// Adds a free worker whose run was not ended by a command.
    pub(crate) fn release(&self, kind: WorkerKind) {
        *self.queue().free.get(kind) += 1;
        self.look();
    }

    /// Records that there may be ready runs.
    pub(crate) fn look(&self) {
        self.queue().look = true;
        self.bell.notify_one();
    }

    /// Stops leasing runs.
    pub(crate) fn close(&self) {
        self.queue().closed = true;
    }

    /// Returns whether leasing has stopped.
    pub(crate) fn is_closed(&self) -> bool {
        self.queue().closed
    }

    /// Returns whether a transaction that leases runs is in flight.
    pub(crate) fn is_leasing(&self) -> bool {
        self.queue().leasing
    }

    /// Returns the number of commands that wait for their transaction.
    pub(crate) fn pending(&self) -> usize {
        self.queue().pending.len()
    }

    /// Refuses all commands from now on.
    pub(crate) fn refuse_all(&self) {
        self.queue().read_only = true;
    }

    /// Stops deciding commands: callers that wait for an answer get [`Error::ShutDown`].
    pub(crate) fn shut(&self) {
        let mut queue = self.queue();
        queue.shut = true;
        queue.pending.clear();
    }

    /// Decides incoming commands until the engine stops.
    pub(crate) async fn run(&self, shared: &Arc<Shared>) {
        loop {
            let batch = self.take(shared);
            if batch.pending.is_empty() && batch.leases.is_empty() {
                self.bell.notified().await;
                self.gather().await;
                continue;
            }
            self.decide(shared, batch).await;
            self.gather().await;
        }
    }

    /// Lets other tasks run until they send no more commands. The last answers have woken many
    /// tasks; without this wait, the first task to send would get a transaction of its own.
    async fn gather(&self) {
        let mut before = None;
        loop {
            step_aside().await;
            let pending = self.queue().pending.len();
            if before == Some(pending) || pending >= MAX_BATCH {
                return;
            }
            before = Some(pending);
        }
    }

    /// Takes the commands and leases of the next transaction.
    fn take(&self, shared: &Shared) -> Batch {
        let mut queue = self.queue();
        let mut events = 0;
        let fits = |pending: &&Pending| {
            let fits = events < MAX_EVENTS;
            events += pending.weight();
            fits
        };
        let count = queue.pending.iter().take(MAX_BATCH).take_while(fits).count();
        let pending: Vec<Pending> = queue.pending.drain(..count).collect();
        // Commands that end runs also free their workers.
        let mut idle = queue.free;
        for kind in pending.iter().filter_map(|pending| pending.waiting.ends) {
            *idle.get(kind) += 1;
        }
        let look = !queue.closed && (!pending.is_empty() || queue.look);
        let leases = if look { shared.leases(idle) } else { Vec::new() };
        queue.look = false;
        let mut reserved = PerKind::default();
        for lease in &leases {
            let free = queue.free.get(lease.kind);
            let wanted = i64::from(lease.limit).min(*free).max(0);
            *free -= wanted;
            *reserved.get(lease.kind) = wanted;
        }
        queue.leasing = !leases.is_empty();
        let inputs = if leases.is_empty() { Vec::new() } else { queue.ahead.take() };
        Batch { pending, leases, reserved, idle: look.then_some(idle), inputs }
    }

    /// Commits a batch in one transaction. If the store refuses it, the batch is split and
    /// committed in parts.
    async fn decide(&self, shared: &Arc<Shared>, batch: Batch) {
        let Batch { pending, leases, reserved, idle, inputs } = batch;
        let mut parts = vec![pending];
        let mut leases = Some(leases);
        while let Some(part) = parts.pop() {
            let last = parts.is_empty();
            let with = if last { leases.take().unwrap_or_default() } else { Vec::new() };
            let parted = part.into_iter().map(|pending| (pending.salted, pending.waiting));
            let (commands, part): (Vec<SeededCommand>, Vec<Waiting>) = parted.unzip();
            let asked = with.iter().map(|lease| (lease.command.clone(), 0));
            let commands: Arc<[SeededCommand]> = commands.into_iter().chain(asked).collect();
            let started = shared.timer.elapsed();
            let expected = self.expected.lock().expect("nothing panics under this lock").clone();
            let store = &*shared.store;
            let outcome = commit_reading(store, commands.clone(), inputs.clone(), &expected).await;
            telemetry::committed(
                part.len(),
                shared.timer.elapsed().saturating_sub(started),
                outcome.is_ok(),
            );
            match outcome {
                Ok(mut done) => {
                    shared.health.committed();
                    if let Some(learned) = done.1.expected.take() {
                        *self.expected.lock().expect("nothing panics under this lock") =
                            Arc::new(learned);
                    }
                    let idle = idle.filter(|_| last);
                    self.answer(shared, &commands, part, (with, idle), &inputs, done);
                }
                // One row that the store refuses must not fail the other commands: halve the batch
                // and commit both parts. The leases go with the last part.
                Err(StoreError::Data(_) | StoreError::TooManyRounds)
                    if !part.is_empty() && part.len() + with.len() > 1 =>
                {
                    let again = part.into_iter().zip(&*commands);
                    let again = again.map(|(waiting, it)| Pending { salted: it.clone(), waiting });
                    let mut first: Vec<Pending> = again.collect();
                    let second = first.split_off(first.len().div_ceil(2));
                    if last {
                        leases = Some(with);
                    }
                    parts.push(second);
                    parts.push(first);
                }
                Err(error) => {
                    tracing::warn!(%error, commands = part.len(), "transaction failed");
                    let error = Arc::new(error);
                    shared.health.commit_failed(error.clone());
                    let error = Error::Store(error);
                    for waiting in part {
                        let _ = waiting.reply.send(Err(error.clone()));
                    }
                }
            }
        }
        let mut queue = self.queue();
        queue.free += reserved;
        queue.leasing = false;
        drop(queue);
        shared.idle.notify_waiters();
    }

    /// Sends the answers to the callers, and hands the leased runs to workers.
    fn answer(
        &self,
        shared: &Arc<Shared>,
        commands: &[SeededCommand],
        part: Vec<Waiting>,
        (leases, mut idle): (Vec<Lease>, Option<PerKind>),
        inputs: &[Seq],
        (mut answers, mut seen): (Vec<Option<Answered>>, CommitEffects),
    ) {
        let (mut taken, mut look, mut freed) = (Vec::new(), false, PerKind::default());
        for (lease, answer) in leases.into_iter().zip(answers.split_off(part.len())) {
            match answer {
                Some(Ok(Answer::Leased(runs))) => {
                    look |= shared.leased(&lease, &runs);
                    let count = i64::try_from(runs.len()).unwrap_or(i64::MAX);
                    *freed.get(lease.kind) -= count;
                    if let Some(idle) = &mut idle {
                        *idle.get(lease.kind) -= count;
                    }
                    taken.extend(runs.into_iter().map(|run| (lease.kind, run)));
                }
                Some(Err(Refusal::EngineDead(engine))) => shared.lose(engine),
                Some(_) => {}
                None => look = true,
            }
        }
        let late = idle.map(|free| shared.without_worker(&seen, free)).unwrap_or_default();
        let mut left = Vec::new();
        for ((waiting, salted), answer) in part.into_iter().zip(commands).zip(answers) {
            match answer {
                Some(mut answer) => {
                    if let Ok(answer) = &mut answer
                        && !late.is_empty()
                    {
                        answer.wait_for_worker(&late);
                    }
                    match &answer {
                        Ok(answer) => telemetry::answered(answer),
                        Err(refusal) => telemetry::refused(refusal),
                    }
                    if let Some(kind) = waiting.ends.filter(|_| answer.is_ok()) {
                        *freed.get(kind) += 1;
                    }
                    let _ = waiting.reply.send(answer.map_err(Error::from));
                }
                None => left.push(Pending { salted: salted.clone(), waiting }),
            }
        }
        {
            let mut queue = self.queue();
            queue.free += freed;
            queue.look |= look || !left.is_empty();
            queue.ahead.saw(inputs, &taken, &mut seen);
            for pending in left.into_iter().rev() {
                queue.pending.push_front(pending);
            }
        }
        let events = std::mem::take(&mut seen.events);
        for (_, run) in &taken {
            telemetry::leased(run, seen.now);
        }
        seen.ended.iter().for_each(telemetry::ended);
        shared.hand_over(taken, &events);
        shared.saw(seen);
    }
}

/// Yields to all other tasks of this thread. `tokio::task::yield_now` does not serve here: it wakes
/// this task later, and a test could conclude meanwhile that all tasks are idle.
pub(crate) async fn step_aside() {
    let mut waited = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Future of a command's answer. When it is ready, the command is durable.
#[derive(Debug)]
pub(crate) struct Reply(oneshot::Receiver<Result<Answer, Error>>);

impl Future for Reply {
    type Output = Result<Answer, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|answer| answer.unwrap_or(Err(Error::ShutDown)))
    }
}
