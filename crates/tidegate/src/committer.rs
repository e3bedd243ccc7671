//! Group commit: commands gather while a transaction runs, and go together into the next.
//!
//! An idle engine adds no delay; a busy one pays one transaction for many commands. Each
//! transaction also leases runs for the workers that are free by its end, so that a run is
//! handed to a worker by the very commit that made it ready.

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
    id::Seq,
    run::record::Then,
};
use tidegate_store::{Answered, Salted, Seen, StoreError, commit_reading};
use tokio::sync::{Notify, oneshot};

use crate::{engine::Shared, error::Error, load::Ahead, telemetry};

/// The most commands in one transaction: more make it long, and gain nothing.
const MAX_BATCH: usize = 512;

/// The most events in one transaction, give or take one command: it is full at 4,000 rows, and
/// what does not fit would be tried out for nothing.
const MAX_EVENTS: usize = 1800;

/// A command that waits for its transaction.
struct Pending {
    salted: Salted,
    waiting: Waiting,
}

/// Who waits for a command.
struct Waiting {
    /// Its worker is free once it is done.
    ends: bool,
    reply: oneshot::Sender<Result<Answer, Error>>,
}

impl Pending {
    /// How much of a transaction it may fill.
    fn weight(&self) -> usize {
        let command = match &self.salted.0 {
            Command::Once { command, .. } => command,
            command => command,
        };
        if let Command::Post { events, .. } = command { events.len() } else { 1 }
    }
}

/// What goes into one transaction.
struct Batch {
    pending: Vec<Pending>,
    leases: Vec<(Command, u32)>,
    /// Free workers that the leases are meant for.
    reserved: i64,
    /// Inputs to read along.
    inputs: Vec<Seq>,
}

/// The queue in front of the store.
#[derive(Default)]
pub(crate) struct Committer {
    queue: Mutex<Queue>,
    bell: Notify,
}

impl fmt::Debug for Committer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Committer").finish_non_exhaustive()
    }
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "four things that are so or not, apart")]
struct Queue {
    pending: VecDeque<Pending>,
    /// Workers that have nothing to do.
    free: i64,
    /// There may be ready runs that nobody has looked for.
    look: bool,
    /// No more runs are leased.
    closed: bool,
    /// A transaction that leases runs is on its way.
    leasing: bool,
    /// Nothing is decided any more.
    shut: bool,
    /// Inputs of those who are next.
    ahead: Ahead,
}

impl Committer {
    pub(crate) fn new(workers: usize) -> Self {
        let free = i64::try_from(workers).unwrap_or(i64::MAX);
        Self { queue: Mutex::new(Queue { free, ..Queue::default() }), bell: Notify::new() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("nothing panics under this lock")
    }

    /// Sends a command; the answer is durable when it comes.
    pub(crate) fn send(&self, salted: Salted) -> Reply {
        let (reply, answer) = oneshot::channel();
        let ends = match &salted.0 {
            Command::Record { report, .. } => report.then != Then::Continue,
            _ => false,
        };
        let mut queue = self.queue();
        // Without its sender an answer is that the engine has been shut down.
        if !queue.shut {
            queue.pending.push_back(Pending { salted, waiting: Waiting { ends, reply } });
            self.bell.notify_one();
        }
        Reply(answer)
    }

    /// A worker has nothing to do any more, other than by a command that ended its run.
    pub(crate) fn release(&self) {
        self.queue().free += 1;
        self.look();
    }

    /// There may be ready runs.
    pub(crate) fn look(&self) {
        self.queue().look = true;
        self.bell.notify_one();
    }

    /// Leases no more runs.
    pub(crate) fn close(&self) {
        self.queue().closed = true;
    }

    /// Whether no more runs are leased.
    pub(crate) fn is_closed(&self) -> bool {
        self.queue().closed
    }

    /// Whether runs are being leased.
    pub(crate) fn is_leasing(&self) -> bool {
        self.queue().leasing
    }

    /// How many commands wait for their transaction.
    pub(crate) fn pending(&self) -> usize {
        self.queue().pending.len()
    }

    /// Decides nothing any more: whoever waits for an answer is told so.
    pub(crate) fn shut(&self) {
        let mut queue = self.queue();
        queue.shut = true;
        queue.pending.clear();
    }

    /// Decides what comes, for as long as the engine lives.
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

    /// Lets those go first who are ready to send: the last answers have woken many, and the first
    /// of them to send would otherwise have a transaction to itself.
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

    /// What goes into the next transaction.
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
        // Whatever is decided may make runs ready, and frees the workers of those that end.
        let ending = pending.iter().filter(|pending| pending.waiting.ends).count();
        let idle = if queue.closed { 0 } else { queue.free + i64::try_from(ending).unwrap_or(0) };
        let look = !pending.is_empty() || queue.look;
        let leases = if look { shared.leases(idle) } else { Vec::new() };
        queue.look = false;
        let wanted: i64 = leases.iter().map(|(_, limit)| i64::from(*limit)).sum();
        let reserved = wanted.min(queue.free).max(0);
        queue.free -= reserved;
        queue.leasing = !leases.is_empty();
        let inputs = if leases.is_empty() { Vec::new() } else { queue.ahead.take() };
        Batch { pending, leases, reserved, inputs }
    }

    /// One transaction, or several where one is too small for all.
    async fn decide(&self, shared: &Arc<Shared>, batch: Batch) {
        let Batch { pending, leases, reserved, inputs } = batch;
        let mut parts = vec![pending];
        let mut leases = Some(leases);
        while let Some(part) = parts.pop() {
            let last = parts.is_empty();
            let with = if last { leases.take().unwrap_or_default() } else { Vec::new() };
            let parted = part.into_iter().map(|pending| (pending.salted, pending.waiting));
            let (commands, part): (Vec<Salted>, Vec<Waiting>) = parted.unzip();
            let asked = with.iter().map(|(lease, _)| (lease.clone(), 0));
            let commands: Arc<[Salted]> = commands.into_iter().chain(asked).collect();
            let started = shared.timer.elapsed();
            let outcome = commit_reading(&*shared.store, commands.clone(), inputs.clone()).await;
            telemetry::committed(
                part.len(),
                shared.timer.elapsed().saturating_sub(started),
                outcome.is_ok(),
            );
            match outcome {
                Ok(done) => {
                    shared.health.committed();
                    self.answer(shared, &commands, part, with, &inputs, done);
                }
                // A row that the store refuses must not take its neighbours down.
                Err(StoreError::Data(_)) if part.len() > 1 => {
                    let again = part.into_iter().zip(&*commands);
                    let again = again.map(|(waiting, it)| Pending { salted: it.clone(), waiting });
                    let mut first: Vec<Pending> = again.collect();
                    let second = first.split_off(first.len() / 2);
                    leases = Some(if last { with } else { Vec::new() });
                    parts.push(second);
                    parts.push(first);
                }
                Err(error) => {
                    tracing::warn!(%error, commands = part.len(), "a transaction failed");
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

    /// Tells everyone what came of it, and hands leased runs over.
    fn answer(
        &self,
        shared: &Arc<Shared>,
        commands: &[Salted],
        part: Vec<Waiting>,
        leases: Vec<(Command, u32)>,
        inputs: &[Seq],
        (answers, mut seen): (Vec<Option<Answered>>, Seen),
    ) {
        let mut answers = answers.into_iter();
        let (mut left, mut ended) = (Vec::new(), 0);
        for ((waiting, salted), answer) in part.into_iter().zip(commands).zip(answers.by_ref()) {
            match answer {
                Some(answer) => {
                    match &answer {
                        Ok(answer) => telemetry::answered(answer),
                        Err(refusal) => telemetry::refused(refusal),
                    }
                    ended += i64::from(waiting.ends && answer.is_ok());
                    let _ = waiting.reply.send(answer.map_err(Error::from));
                }
                None => left.push(Pending { salted: salted.clone(), waiting }),
            }
        }
        let (mut taken, mut look) = (Vec::new(), !left.is_empty());
        for ((_, limit), answer) in leases.into_iter().zip(answers) {
            match answer {
                Some(Ok(Answer::Leased(runs))) => {
                    look |= runs.len() >= limit as usize;
                    taken.extend(runs);
                }
                Some(Err(Refusal::EngineDead(engine))) => shared.lose(engine),
                Some(_) => {}
                None => look = true,
            }
        }
        {
            let mut queue = self.queue();
            queue.free += ended - i64::try_from(taken.len()).unwrap_or(i64::MAX);
            queue.look |= look;
            queue.ahead.saw(inputs, &taken, &mut seen);
            for pending in left.into_iter().rev() {
                queue.pending.push_front(pending);
            }
        }
        let events = std::mem::take(&mut seen.events);
        for run in &taken {
            telemetry::leased(run, seen.now);
        }
        seen.ended.iter().for_each(telemetry::ended);
        shared.hand_over(taken, &events);
        shared.saw(seen);
    }
}

/// Lets all other tasks of this thread have a turn. (Not `tokio::task::yield_now`, which wakes
/// later, so that a test might think that nothing is left to do.)
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

/// An answer that is durable when it comes.
#[derive(Debug)]
pub(crate) struct Reply(oneshot::Receiver<Result<Answer, Error>>);

impl Future for Reply {
    type Output = Result<Answer, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|answer| answer.unwrap_or(Err(Error::ShutDown)))
    }
}
