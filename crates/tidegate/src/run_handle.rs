//! Handles of runs: status, output, cancellation, and a stream of updates.

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures_core::Stream;
use serde::{Serialize, de::DeserializeOwned};
use tidegate_core::{
    command::{Answer, Command, Refusal},
    definition::DEFAULT_APP,
    explain::Why,
    flow::Verdict,
    id::RunId,
    list::RunStatus,
    row::{Chunk, Ending, Phase, Progress},
};
use tracing::Instrument;

use crate::{
    api::{Engine, payload, unexpected},
    error::Error,
    reference::WorkflowTarget,
    step_error::StepError,
    telemetry,
};

impl Engine {
    /// Starts a workflow, whatever its triggers are, and returns a handle of its run.
    ///
    /// The input and the verdict of the workflow's controls are durable when this returns. The call
    /// succeeds if any run takes the input: a new run (started or queued), the future run of an
    /// open window or buffer that the input has joined, or the earlier run with the same
    /// idempotency key. [`RunHandle::verdict`] says which.
    ///
    /// ```
    /// use tidegate::{Ctx, Verdict, Workflow, testing::TestHarness};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tidegate::Error> {
    /// let double = Workflow::new("double", async |_: Ctx, n: u32| Ok(2 * n));
    /// let (harness, reference) = (TestHarness::new(), double.reference());
    /// let engine = harness.engine().workflow(double).start().await?;
    ///
    /// let run = engine.start(&reference, 21).await?;
    /// assert!(matches!(run.verdict(), Some(Verdict::Started { .. })));
    /// assert_eq!(run.output().await?, 42);
    ///
    /// // By name, the caller chooses the types.
    /// let run = engine.start::<_, u32>("double", 4).await?;
    /// assert_eq!(run.output().await?, 8);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NotStarted`] if a control admitted no run for the input: a rate limit dropped it, a
    /// singleton skipped it, or a required key is missing. The error's verdict names the control,
    /// and the run that blocked the start, if any. [`Refusal::NoWorkflow`] if no version of the
    /// workflow is released, and [`Refusal::BadInput`] if the input does not match the workflow's
    /// schema.
    pub async fn start<I: Serialize, O>(
        &self,
        workflow: impl WorkflowTarget<I, O>,
        input: I,
    ) -> Result<RunHandle<O>, Error> {
        let (app, workflow) = workflow.target();
        let (app, workflow) = (app.unwrap_or(DEFAULT_APP).to_owned(), workflow.to_owned());
        let (ws, input) = (self.ws(), payload(input)?);
        let span = telemetry::start_span(&ws, &workflow);
        let command = Command::Start { ws, app, workflow, input };
        let outcome = match self.ask(command).instrument(span.clone()).await? {
            Answer::Admitted(outcome) => outcome,
            other => return Err(unexpected(&other)),
        };
        telemetry::dispatched(&span, &outcome);
        let verdict = outcome.verdict;
        match verdict.carrier() {
            Some(id) => Ok(RunHandle { verdict: Some(verdict), ..self.handle(id) }),
            None => {
                Err(Error::NotStarted { workflow: outcome.workflow, verdict: Box::new(verdict) })
            }
        }
    }

    /// Returns a handle of a run by its id, for example of a run that an event, a request or
    /// another process has started.
    ///
    /// This does not check that the run exists, or that its output has this type.
    pub fn handle<O>(&self, run: RunId) -> RunHandle<O> {
        RunHandle { engine: self.clone(), id: run, verdict: None, output: PhantomData }
    }
}

/// Handle of a run, with the type of its output.
///
/// Cheap to clone. The handle keeps its [`Engine`] alive. Dropping the handle does not affect the
/// run.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Ctx, RunStatus, Workflow, testing::TestHarness};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tidegate::Error> {
/// let nap = Workflow::new("nap", async |ctx: Ctx, (): ()| {
///     ctx.sleep("nap", Duration::from_secs(60)).await
/// });
/// let (harness, reference) = (TestHarness::new(), nap.reference());
/// let engine = harness.engine().workflow(nap).start().await?;
///
/// let run = engine.start(&reference, ()).await?;
/// harness.settle().await;
/// assert_eq!(run.status().await?, RunStatus::Waiting);
/// run.cancel("no longer needed").await?;
/// let error = run.output().await.unwrap_err();
/// assert_eq!(error.code(), "run_cancelled");
/// # Ok(())
/// # }
/// ```
pub struct RunHandle<O> {
    engine: Engine,
    id: RunId,
    verdict: Option<Verdict>,
    output: PhantomData<fn() -> O>,
}

impl<O> Clone for RunHandle<O> {
    fn clone(&self) -> Self {
        Self { verdict: self.verdict.clone(), ..self.engine.handle(self.id) }
    }
}

impl<O> fmt::Debug for RunHandle<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<O> RunHandle<O> {
    /// Returns the id of the run.
    pub fn id(&self) -> RunId {
        self.id
    }

    /// Returns the verdict of the call that started the run; `None` for a handle created by id.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// Returns the current status. It is `queued` for an open window or buffer that will become the
    /// run.
    pub async fn status(&self) -> Result<RunStatus, Error> {
        let (live, ended) = self.engine.look_up(self.id).await?;
        let ended = ended.map(|ended| RunStatus::of_ending(&ended.ending));
        match ended.or_else(|| live.as_ref().and_then(RunStatus::of)) {
            Some(status) => Ok(status),
            None if self.engine.is_promised(self.id).await? => Ok(RunStatus::Queued),
            None => Err(Refusal::NoRun(self.id).into()),
        }
    }

    /// Returns why the run waits, or how it ended.
    pub async fn why(&self) -> Result<Why, Error> {
        self.engine.why(self.id).await
    }

    /// Cancels the run. A run that is being driven stops at its next await.
    pub async fn cancel(&self, reason: &str) -> Result<(), Error> {
        self.engine.cancel(self.id, reason).await
    }

    /// Sends a signal to the run. The run receives the signal when it waits for it.
    pub async fn signal(&self, name: &str, data: impl Serialize) -> Result<(), Error> {
        self.engine.signal(self.id, name, data).await
    }

    /// Returns a stream of the chunks and the progress of the run, from its start to its end.
    ///
    /// ```
    /// use tidegate::{Ctx, RunUpdate, Workflow, testing::TestHarness};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tidegate::Error> {
    /// let answer = Workflow::new("answer", async |ctx: Ctx, question: String| {
    ///     ctx.step("write", || async {
    ///         question.split(' ').try_for_each(|word| ctx.emit(word))
    ///     })
    ///     .await
    /// });
    /// let (harness, reference) = (TestHarness::new(), answer.reference());
    /// let engine = harness.engine().workflow(answer).start().await?;
    ///
    /// let run = engine.start(&reference, "to be continued".to_owned()).await?;
    /// let (mut updates, mut words) = (run.updates(), Vec::new());
    /// while let Some(update) = updates.next().await {
    ///     if let RunUpdate::Chunk(chunk) = update? {
    ///         words.push(chunk.get::<String>().expect("a word"));
    ///     }
    /// }
    /// assert_eq!(words, ["to", "be", "continued"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn updates(&self) -> RunUpdates {
        RunUpdates(Stage::Idle(Follower {
            engine: self.engine.clone(),
            run: self.id,
            after: 0,
            progress: None,
            pending: VecDeque::new(),
            ended: false,
            wait: FIRST_LOOK,
        }))
    }
}

impl<O: DeserializeOwned> RunHandle<O> {
    /// Waits for the run to end, whichever engine drives it, and returns its output.
    ///
    /// # Errors
    ///
    /// [`Error::RunFailed`] with the error of the handler if the run failed.
    /// [`Error::RunCancelled`] with the reason if it was cancelled or replaced by another run.
    pub async fn output(&self) -> Result<O, Error> {
        let run = self.id;
        match self.engine.ended(run).await?.ending {
            Ending::Completed { output } => output.get().map_err(|error| {
                let wanted = std::any::type_name::<O>();
                Error::Value(format!("the output of {run} cannot be read as {wanted}: {error}"))
            }),
            Ending::Failed { error } => {
                Err(Error::RunFailed { run, error: StepError::recorded(&error) })
            }
            Ending::Cancelled { reason, .. } => Err(Error::RunCancelled { run, reason }),
        }
    }
}

/// Update of a run before its end, from [`RunHandle::updates`].
///
/// ```
/// use tidegate::{prelude::*, testing::TestHarness};
///
/// fn show(update: &RunUpdate) -> String {
///     match update {
///         RunUpdate::Chunk(chunk) => chunk.to_string(),
///         RunUpdate::Progress(progress) => format!("{}: {}", progress.permille, progress.text),
///         _ => String::new(), // there may be more kinds later
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let load = Workflow::new("load", async |ctx: Ctx, (): ()| {
///     ctx.emit("first part")?;
///     ctx.progress(0.5, "half");
///     ctx.step("rest", || async { Ok(()) }).await
/// });
/// let (harness, reference) = (TestHarness::new(), load.reference());
/// let engine = harness.engine().workflow(load).start().await?;
/// let mut updates = engine.start(&reference, ()).await?.updates();
/// assert_eq!(show(&updates.next().await.expect("there is a chunk")?), "first part");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunUpdate {
    /// The run has emitted a chunk of output. Chunks arrive in order, and none is left out.
    Chunk(Chunk),
    /// The run has reported its progress. Older reports that were not read are left out.
    Progress(Progress),
}

/// Stream of the updates of a run. It ends when the run has ended.
///
/// [`RunUpdates::next`] needs no other crate; the type also implements `futures_core::Stream`. The
/// store is polled only while this stream is polled: 25 ms after an update, then at growing
/// intervals of up to one second. After an error the stream ends.
#[must_use = "a stream does nothing unless it is polled"]
pub struct RunUpdates(Stage);

/// Result of one poll: the follower for the next poll, and the update.
type Followed = (Follower, Option<Result<RunUpdate, Error>>);
type Next = Pin<Box<dyn Future<Output = Followed> + Send>>;

enum Stage {
    Idle(Follower),
    Busy(Next),
    Over,
}

impl fmt::Debug for RunUpdates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunUpdates").finish_non_exhaustive()
    }
}

impl RunUpdates {
    /// Waits for the next update; `None` when the run has ended.
    pub async fn next(&mut self) -> Option<Result<RunUpdate, Error>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for RunUpdates {
    type Item = Result<RunUpdate, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut next: Next = match std::mem::replace(&mut self.0, Stage::Over) {
            Stage::Idle(follower) => Box::pin(follower.next()),
            Stage::Busy(next) => next,
            Stage::Over => return Poll::Ready(None),
        };
        let Poll::Ready((follower, update)) = next.as_mut().poll(cx) else {
            self.0 = Stage::Busy(next);
            return Poll::Pending;
        };
        if let Some(Ok(_)) = update {
            self.0 = Stage::Idle(follower);
        }
        Poll::Ready(update)
    }
}

/// First interval between two polls. It doubles while there is no update.
const FIRST_LOOK: Duration = Duration::from_millis(25);

/// Maximum interval between two polls of a run that is being driven.
const DRIVEN: Duration = Duration::from_millis(200);

/// Maximum interval between two polls of a run that is not being driven.
const PARKED: Duration = Duration::from_secs(1);

/// Maximum number of chunks per read.
const CHUNKS: u32 = 100;

/// Position of a subscriber in the updates of a run.
struct Follower {
    engine: Engine,
    run: RunId,
    /// Position of the last chunk that was read.
    after: u32,
    progress: Option<Progress>,
    pending: VecDeque<RunUpdate>,
    /// Whether the run has ended and all its chunks were read.
    ended: bool,
    wait: Duration,
}

impl Follower {
    async fn next(mut self) -> Followed {
        loop {
            if let Some(update) = self.pending.pop_front() {
                self.wait = FIRST_LOOK;
                return (self, Some(Ok(update)));
            }
            if self.ended {
                return (self, None);
            }
            match self.look().await {
                Err(error) => return (self, Some(Err(error))),
                Ok(longest) if self.pending.is_empty() && !self.ended => self.rest(longest).await,
                Ok(_) => {}
            }
        }
    }

    /// Reads the updates since the last call. Returns the maximum interval until the next call.
    async fn look(&mut self) -> Result<Duration, Error> {
        // The run is read before its chunks: if it has ended, the chunks read afterwards are
        // complete.
        let (live, ended) = self.engine.look_up(self.run).await?;
        let chunks = self.engine.chunks(self.run, self.after, CHUNKS).await?;
        let all = chunks.len() < CHUNKS as usize;
        self.ended = ended.is_some() && all;
        self.after = chunks.last().map_or(self.after, |chunk| chunk.seq);
        self.pending.extend(chunks.into_iter().map(RunUpdate::Chunk));
        let driven = live.as_ref().is_some_and(|run| run.phase == Phase::Driven);
        // The progress comes after the chunks that the run emitted before it.
        if let Some(progress) = live.and_then(|run| run.progress).filter(|_| all)
            && self.progress.as_ref() != Some(&progress)
        {
            self.progress = Some(progress.clone());
            self.pending.push_back(RunUpdate::Progress(progress));
        }
        Ok(if driven { DRIVEN } else { PARKED })
    }

    /// Waits for the next poll, or for the end of the run.
    async fn rest(&mut self, longest: Duration) {
        let mut end = self.engine.shared().endings.subscribe(self.run);
        let timer = self.engine.timer();
        tokio::select! {
            biased;
            _ = &mut end.told => {}
            () = timer.sleep_until(timer.elapsed() + self.wait.min(longest)) => {}
        }
        self.wait = (self.wait * 2).min(PARKED);
    }
}
