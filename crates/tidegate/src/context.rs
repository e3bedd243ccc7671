//! A handler's view of its run: [`Ctx`].
//!
//! Steps are recorded by id, not by position. A handler may be started any number of times, on any
//! engine: recorded steps return their recorded results, and all other steps are executed.

mod ops;
mod output;
mod patch;
mod pool;
mod records;
mod replay;
mod send;
mod session;
mod state;
mod step;
mod stream;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod transaction;
mod turn;
mod undo;
mod wait;

use std::{
    collections::BTreeMap,
    fmt,
    future::{Future, poll_fn},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

pub(crate) use ops::{MAX_OPS, Ops};
pub use pool::PooledStep;
pub(crate) use records::check_record;
pub use records::{Answers, PendingWait};
pub(crate) use replay::{OUTSIDE, Outcome};
pub use send::SendEvent;
use serde::{Serialize, de::DeserializeOwned};
pub use session::Session;
pub(crate) use state::{Next, State};
use step::Executing;
pub use step::Step;
use tidegate_core::{
    definition::Definition,
    event::NewEvent,
    flow::{
        close::{self, GateToClose},
        settle::{MAX_SETTLED, reservation},
    },
    id::RunId,
    json::Payload,
    reads::{ReadSet, Scan},
    row::{Ending, Event, Purpose, Row, RowKey, Run, SessionRef, Source, StepKind},
    run::record::{NewSend, NewStep, NewWaitOn, Sent, Until},
    time::Timestamp,
};
use tidegate_store::Store;
use tokio::sync::watch;
pub(crate) use undo::undo_all;
pub use wait::{FromAnswer, Returned, Wait};

use crate::{
    drive::StopReason,
    engine::Shared,
    handler::{check_name, write},
    load::MAX_STEPS,
    reference::WorkflowTarget,
    step_error::{Result, StepError},
    timer::Timer,
};

/// A leased run with its input and its definition. In a compensation run: the run that is
/// compensated, as it was at its end.
#[derive(Clone, Debug)]
pub(crate) struct Activation {
    pub(crate) run: Run,
    /// The run's event, or all events of a batch; never empty.
    pub(crate) events: Vec<Event>,
    pub(crate) definition: Arc<Definition>,
}

/// A run that another run replaced.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Replaced {
    /// Id of the replaced run.
    pub run: RunId,
    /// Outcomes of the steps of the replaced run, by step id.
    pub steps: BTreeMap<String, Result<Payload>>,
}

/// A handler's view of its run.
///
/// Cheap to clone.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{prelude::*, testing::TestHarness};
///
/// async fn order(ctx: Ctx, cents: u32) -> Result<String> {
///     let key = ctx.idempotency_key("charge");
///     let charged = ctx.step("charge", || async { Ok(format!("{cents} by {key}")) }).await?;
///     ctx.sleep("cool down", Duration::from_secs(3600)).await?;
///     let rating = ctx.wait_for_event::<u8>("rating", "order/rated");
///     Ok(match rating.timeout(Duration::from_secs(60)).await? {
///         Some(stars) => format!("{charged}, {stars} stars"),
///         None => charged,
///     })
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let workflow = Workflow::new("order", order);
/// let (harness, order) = (TestHarness::new(), workflow.reference());
/// let engine = harness.engine().workflow(workflow).start().await?;
/// let run = engine.start(&order, 30).await?;
/// harness.advance(Duration::from_secs(3660)).await;
/// assert!(run.output().await?.starts_with("30 by "));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Ctx(Arc<Inner>);

struct Inner {
    activation: Activation,
    state: Mutex<State>,
    shared: Arc<Shared>,
    stop: watch::Receiver<Option<StopReason>>,
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx").field("run", &self.run_id()).finish_non_exhaustive()
    }
}

impl Ctx {
    pub(crate) fn new(
        activation: Activation,
        state: State,
        shared: Arc<Shared>,
        stop: watch::Receiver<Option<StopReason>>,
    ) -> Self {
        Self(Arc::new(Inner { activation, state: Mutex::new(state), shared, stop }))
    }

    pub(crate) fn activation_state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("nothing panics under this lock")
    }

    pub(crate) fn activation(&self) -> &Activation {
        &self.0.activation
    }

    /// Returns whether another clone of this context exists.
    pub(crate) fn is_held_elsewhere(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    fn store(&self) -> &dyn Store {
        &*self.0.shared.store
    }

    pub(crate) fn timer(&self) -> &dyn Timer {
        &*self.0.shared.timer
    }

    /// Returns a random number from 0 to 1.
    fn chance(&self) -> f64 {
        self.0.shared.entropy.chance()
    }
}

/// Properties of the run.
impl Ctx {
    /// Returns the run's id.
    pub fn run_id(&self) -> RunId {
        self.activation().run.id
    }

    /// Returns the workflow's name, or `flow/action`.
    pub fn workflow(&self) -> &str {
        &self.activation().run.workflow
    }

    /// Returns whether the run belongs to an action of a flow: then its event is a request.
    pub fn is_action(&self) -> bool {
        self.activation().definition.flow.is_some()
    }

    /// Returns the version of the definition that the run was admitted under.
    pub fn version(&self) -> u32 {
        self.activation().run.version
    }

    /// Returns the number of this step's next attempt, starting at 1.
    pub fn attempt(&self, step: &str) -> u32 {
        self.activation_state().failures(step) + 1
    }

    /// Returns the event that started the run; in a batch, the first.
    pub fn event(&self) -> &Event {
        &self.activation().events[0]
    }

    /// Returns all events of a batch, in arrival order; `None` if the run is not a batch.
    pub fn events(&self) -> Option<&[Event]> {
        let batch = matches!(self.activation().run.source, Source::Batch(_));
        batch.then_some(&self.activation().events)
    }

    /// Returns an idempotency key for this step, the same on every replay, attempt and worker.
    ///
    /// Pass it to the service that the step calls, so that a repeated call is recognised.
    pub fn idempotency_key(&self, step: &str) -> String {
        format!("{}:{step}", self.activation().run.effects())
    }

    /// Returns the value of this type that the program gave to its engine with
    /// [`EngineBuilder::state`](crate::EngineBuilder::state): a database pool, a client, settings.
    ///
    /// Clone the value for a closure that must own it. Handlers such as `async |ctx, input|` cannot
    /// capture values, because they are called for many runs; use this method instead.
    ///
    /// # Errors
    ///
    /// Fails with `NoState` and the name of the type if the engine has no value of this type. The
    /// run is retried, and an engine that has the value may take it over.
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<&T> {
        self.0.shared.state.get(format_args!("workflow `{}`", self.workflow()))
    }

    /// Returns the definition under which a workflow of the run's workspace takes new runs, as far
    /// as this engine has seen it; `None` if it takes none.
    pub fn definition_of(&self, app: &str, workflow: &str) -> Option<Arc<Definition>> {
        let catalog = self.store().catalogs().remove(&self.activation().run.ws)?;
        let current = catalog.entry(app, workflow)?.open()?;
        Some(current.workflow.clone())
    }

    /// Returns the first definition of the run's workspace that takes new runs and is accepted, in
    /// the order of app and name.
    pub fn find_definition(
        &self,
        accepts: impl Fn(&Definition) -> bool,
    ) -> Option<Arc<Definition>> {
        let catalog = self.store().catalogs().remove(&self.activation().run.ws)?;
        let open = catalog.entries().filter_map(|(_, entry)| entry.open());
        let mut definitions = open.map(|current| &current.workflow);
        definitions.find(|definition| accepts(definition)).cloned()
    }

    /// Returns the run that this one replaced, with its recorded steps; `None` if there is none.
    pub async fn replaced(&self) -> Result<Option<Replaced>> {
        let Some(run) = self.activation().run.replaced else { return Ok(None) };
        let _reading = Executing::read(self);
        let scan = Scan::Steps(run.seq);
        let reads = ReadSet::default().scan(scan.clone(), MAX_STEPS);
        let snapshot = self.store().read(reads).await?;
        let mut steps = BTreeMap::new();
        for row in snapshot.found(&scan) {
            if let Row::Step(step) = row {
                let value = step.result.clone().map_err(|fault| StepError::recorded(&fault));
                steps.insert(step.id.clone(), value);
            }
        }
        Ok(Some(Replaced { run, steps }))
    }

    /// Returns the failed run that this run handles as a failure handler; `None` in any other run.
    pub fn failure_of(&self) -> Option<RunId> {
        match self.activation().run.purpose {
            Purpose::OnFailure(run) => Some(run),
            Purpose::Ordinary | Purpose::Compensates(_) => None,
        }
    }

    /// In a failure handler, returns the failed run and its error; otherwise `None`.
    pub async fn failure(&self) -> Result<Option<(RunId, StepError)>> {
        let Some(run) = self.failure_of() else { return Ok(None) };
        let key = RowKey::Ended(run.seq);
        let _reading = Executing::read(self);
        let snapshot = self.store().read(ReadSet::default().row(key.clone())).await?;
        match snapshot.rows.get(&key) {
            Some(Some(Row::Ended(ended))) => match &ended.ending {
                Ending::Failed { error } => Ok(Some((run, StepError::recorded(error)))),
                Ending::Completed { .. } | Ending::Cancelled { .. } => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// Returns the handler's input as JSON: the data of the event, a list of the data of all events
    /// of a batch, or the input of the request.
    pub fn input(&self) -> String {
        let Activation { events, definition, .. } = self.activation();
        if let Some(events) = self.events() {
            let all: Vec<&str> = events.iter().map(|event| event.data.as_str()).collect();
            return format!("[{}]", all.join(","));
        }
        if definition.flow.is_some() {
            let path = ["input"].map(str::to_owned);
            return events[0].data.select(&path).unwrap_or("null").to_owned();
        }
        events[0].data.as_str().to_owned()
    }
}

/// Operations of the run.
impl Ctx {
    /// Creates a step: a named part of the run whose value is recorded.
    ///
    /// After a crash between its effect and its record, the step runs again: pass the
    /// [`Ctx::idempotency_key`] to the service that it calls.
    ///
    /// Only the value that the closure returns is recorded. If the closure changes a variable
    /// outside, that change is lost: when the handler is replayed, the closure does not run. Return
    /// the value instead:
    ///
    /// ```
    /// # use tidegate::{Ctx, Result};
    /// # async fn fetch(page: u32) -> Result<Vec<String>> { Ok(vec![page.to_string()]) }
    /// async fn sync(ctx: Ctx, pages: u32) -> Result<usize> {
    ///     let mut rows = 0;
    ///     for page in 0..pages {
    ///         // Wrong: `rows += …` inside the closure is lost when the run continues elsewhere.
    ///         let id = format!("page {page}");
    ///         rows += ctx.step(id, || async { Ok(fetch(page).await?.len()) }).await?;
    ///     }
    ///     Ok(rows)
    /// }
    /// ```
    pub fn step<'a, T, F, Fut>(&self, id: impl Into<String>, run: F) -> Step<'a, T>
    where
        F: FnOnce() -> Fut + Send + 'a,
        Fut: Future<Output = Result<T>> + Send + 'a,
    {
        Step::new(self.clone(), id.into(), run)
    }

    /// Creates a [step](Ctx::step) whose closure can be called again: if an attempt fails while
    /// other operations of the run execute, the next attempt begins when its backoff is over, and
    /// not only when the others have ended.
    ///
    /// ```
    /// # use tidegate::{Ctx, Result};
    /// # async fn call(_: &str) -> Result<u32> { Ok(1) }
    /// async fn both(ctx: Ctx, _: ()) -> Result<u32> {
    ///     let fast = ctx.repeatable_step("fast", || call("fast"));
    ///     let slow = ctx.repeatable_step("slow", || call("slow"));
    ///     let (fast, slow) = tokio::try_join!(fast.into_future(), slow.into_future())?;
    ///     Ok(fast + slow)
    /// }
    /// ```
    pub fn repeatable_step<'a, T, F, Fut>(&self, id: impl Into<String>, run: F) -> Step<'a, T>
    where
        F: FnMut() -> Fut + Send + 'a,
        Fut: Future<Output = Result<T>> + Send + 'a,
    {
        Step::repeatable(self.clone(), id.into(), run)
    }

    /// Sleeps. Meanwhile the run occupies no worker, and no slot that it holds only while it
    /// executes.
    pub fn sleep(&self, id: impl Into<String>, duration: Duration) -> Wait<()> {
        let until = Some(wait::in_time(duration));
        Wait::new(self, id.into(), StepKind::Sleep, Ok(NewWaitOn::Time), until)
    }

    /// Sleeps until a time of the store's clock.
    pub fn sleep_until(&self, id: impl Into<String>, at: Timestamp) -> Wait<()> {
        let until = Some(Until::At(at));
        Wait::new(self, id.into(), StepKind::Sleep, Ok(NewWaitOn::Time), until)
    }

    /// Waits for an event that is posted after this call.
    ///
    /// An event that was posted before, for example during a sleep, does not end the wait. To
    /// receive events from the start of the run on, name them with
    /// [`Workflow::waits_for`](crate::Workflow::waits_for).
    ///
    /// Without a timeout, the wait has no end.
    pub fn wait_for_event<T: DeserializeOwned>(
        &self,
        id: impl Into<String>,
        name: impl Into<String>,
    ) -> Wait<Option<T>> {
        let (name, matches) = (name.into(), Vec::new());
        let on = NewWaitOn::Event { name, matches, filter: None, whole: false };
        Wait::new(self, id.into(), StepKind::Event, Ok(on), None)
    }

    /// Waits for a signal to this run.
    ///
    /// A signal that arrived earlier is stored in the run's inbox, and is received too.
    pub fn wait_for_signal<T: DeserializeOwned>(
        &self,
        id: impl Into<String>,
        name: impl Into<String>,
    ) -> Wait<Option<T>> {
        let on = NewWaitOn::Signal { name: name.into() };
        Wait::new(self, id.into(), StepKind::Signal, Ok(on), None)
    }

    /// Waits for a signal that is sent by its name alone, with
    /// [`Engine::signal_by_name`](crate::Engine::signal_by_name).
    ///
    /// At most one step of all runs of a workspace waits for a name. If another one does, this wait
    /// fails with `SignalTaken`; with [`Wait::replacing`] the other wait ends instead. A signal that
    /// nobody waits for is not kept.
    pub fn wait_for_signal_by_name<T: DeserializeOwned>(
        &self,
        id: impl Into<String>,
        name: impl Into<String>,
    ) -> Wait<Option<T>> {
        let (name, replace) = (name.into(), false);
        let on = match check_name(&name) {
            Ok(()) => Ok(NewWaitOn::Named { name, replace }),
            Err(rule) => {
                Err(StepError::coded("BadValue", format!("a signal's name {rule}")).fatal())
            }
        };
        Wait::new(self, id.into(), StepKind::Signal, on, None)
    }

    /// Starts another workflow and waits for its output.
    ///
    /// The workflow is a [`WorkflowRef`](crate::WorkflowRef), or the name of one in the same app.
    /// With a timeout, the wait fails with `TimedOut`, and the other run continues.
    ///
    /// ```
    /// use tidegate::{Ctx, Result, WorkflowRef};
    ///
    /// const PAY: WorkflowRef<u32, String> = WorkflowRef::new("pay");
    ///
    /// async fn order(ctx: Ctx, cents: u32) -> Result<String> {
    ///     let receipt = ctx.invoke("pay", &PAY, cents).await?;
    ///     // By name, the caller chooses the types.
    ///     let parcel: u64 = ctx.invoke("ship", "warehouse.ship", &receipt).await?;
    ///     Ok(format!("{receipt}, parcel {parcel}"))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Fails with `UnknownWorkflow` if no version of the workflow is released, with `Refused` if
    /// one of its controls admits no run, and with the code of the other run's error if that run
    /// fails.
    pub fn invoke<I: Serialize, O: DeserializeOwned>(
        &self,
        id: impl Into<String>,
        workflow: impl WorkflowTarget<I, O>,
        input: I,
    ) -> Wait<Returned<O>> {
        let (app, workflow) = workflow.target();
        let app = app.unwrap_or(&self.activation().run.app).to_owned();
        let workflow = workflow.to_owned();
        let on = write(&input).map(|data| NewWaitOn::Invoke { app, workflow, data });
        Wait::new(self, id.into(), StepKind::Invoke, on, None)
    }

    /// Posts an event, exactly once however often the handler is replayed. It can be delivered
    /// later: a run that ends now can act in three days, and occupies nothing until then.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use serde_json::json;
    /// use tidegate::{Ctx, Result};
    ///
    /// async fn welcome(ctx: Ctx, user: String) -> Result<()> {
    ///     ctx.send_event("greeted", "user.greeted", json!({ "user": user })).await?;
    ///     let three_days = Duration::from_secs(3 * 24 * 60 * 60);
    ///     let reminder = ctx.send_event("remind", "user.remind", json!({ "user": user }));
    ///     reminder.delay(three_days).await
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The step fails with `TooFarAhead` if the delivery is more than 365 days ahead.
    pub fn send_event(
        &self,
        id: impl Into<String>,
        name: impl Into<String>,
        data: impl Serialize,
    ) -> SendEvent {
        let event = write(&data).map(|data| NewEvent::new(name, data));
        SendEvent::new(self.clone(), id.into(), event)
    }

    /// Sends a signal to another run, exactly once however often the handler is replayed.
    ///
    /// # Errors
    ///
    /// The step fails with `run_ended` if the other run has ended, and with `no_run` if it does not
    /// exist.
    pub async fn signal(
        &self,
        id: impl Into<String>,
        run: RunId,
        name: impl Into<String>,
        data: impl Serialize,
    ) -> Result<()> {
        let (step, data) = (id.into(), write(&data)?);
        let recorded = self.turn(&step, StepKind::Send).await?;
        let outcome = if let Some(outcome) = recorded {
            outcome
        } else {
            let what = Sent::Signal { run, name: name.into(), data };
            self.activation_state().send(NewSend { step: step.clone(), what });
            self.outcome_of(&step).await?
        };
        outcome.map(drop).map_err(|fault| StepError::recorded(&fault))
    }

    /// Settles the throttle of a pool that this run has passed: says how many units it really took.
    ///
    /// The difference to the reserved units is spent or given back in the transaction that records
    /// this step, once however often the handler is replayed. Without it the reservation stands.
    ///
    /// ```
    /// use tidegate::{Ctx, Result};
    ///
    /// async fn ask(ctx: Ctx, prompt: String) -> Result<String> {
    ///     let (answer, tokens) = ctx.step("call", || async { Ok((prompt, 812)) }).await?;
    ///     // The definition reserves an estimate: `Rate::pool("openai").cost("tokens")`.
    ///     ctx.settle("openai", tokens).await?;
    ///     Ok(answer)
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Fails with `NoReservation` if the run has not passed a throttle of the pool, with
    /// `AmbiguousReservation` if it has passed two, and with `BadValue` above 1,000,000,000 units.
    /// A second call for one pool is an error, as a second use of a step's id.
    pub async fn settle(&self, pool: &str, actual: u32) -> Result<()> {
        if actual > MAX_SETTLED {
            let message = format!("settle takes at most {MAX_SETTLED} units, got {actual}");
            return Err(StepError::coded("BadValue", message).fatal());
        }
        let step = format!("settle:{pool}");
        if self.turn(&step, StepKind::Settle).await?.is_some() {
            return Ok(());
        }
        reservation(&self.activation().run, pool)
            .map_err(|error| StepError::recorded(&error).fatal())?;
        let what = Sent::Settle { pool: pool.to_owned(), actual };
        self.activation_state().send(NewSend { step, what });
        Ok(())
    }

    /// Closes a gate, because a service has refused a call for too many calls. Returns the error to
    /// return from the step that made the call.
    ///
    /// A text names a pool: its throttle and its `concurrency` limit are closed for this run's key.
    /// [`GateToClose`] names gates of the workflow itself. Until the end, a duration or a time of
    /// the store's clock, no other run passes: a closed throttle stops first starts, a closed limit
    /// every entry. Runs that are inside go on. The later of several ends wins, and none is more
    /// than 15 minutes ahead.
    ///
    /// The step is retried at the end without using up an attempt, at most 100 times.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Ctx, Result};
    ///
    /// # async fn call(_: &str) -> (u16, u64, String) { (200, 0, String::new()) }
    /// async fn ask(ctx: Ctx, prompt: String) -> Result<String> {
    ///     let call = || async {
    ///         let (status, retry_after, answer) = call(&prompt).await;
    ///         if status == 429 {
    ///             return Err(ctx.close_gate("openai", Duration::from_secs(retry_after)));
    ///         }
    ///         Ok(answer)
    ///     };
    ///     ctx.step("call", call).await
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// If the run passes no such gate, the returned error is `NoGate`, which is not retried.
    #[must_use = "the gate is closed when a step returns the error"]
    pub fn close_gate(&self, gate: impl Into<GateToClose>, until: impl Into<Until>) -> StepError {
        let gate = gate.into();
        match close::gates(&self.activation().run, &gate) {
            Err(error) => StepError::recorded(&error),
            Ok(_) => {
                let message = format!("too many calls: it closes `{}`", gate.to_text());
                StepError::coded("TooManyCalls", message).close_gate(gate, until)
            }
        }
    }

    /// Returns the session of this run's request.
    pub fn session(&self) -> Result<Session> {
        let session = self.event().data.select(&["session".to_owned()]);
        let id = session.and_then(|id| serde_json::from_str(id).ok());
        let (Some(flow), Some(id)) = (&self.activation().definition.flow, id) else {
            let message = "this run has no session: only actions have one, if the request names it";
            return Err(StepError::coded("NoSession", message).fatal());
        };
        let (app, flow) = (self.activation().run.app.clone(), flow.clone());
        Ok(Session::new(self, SessionRef { app, flow, id }))
    }

    /// Returns the time of this machine's clock, recorded as a step.
    pub async fn now(&self, id: impl Into<String>) -> Result<Timestamp> {
        self.value_of(id.into(), || self.0.shared.clock.now()).await
    }

    /// Returns a random number, recorded as a step.
    pub async fn random(&self, id: impl Into<String>) -> Result<u64> {
        self.value_of(id.into(), || self.0.shared.entropy.number()).await
    }

    /// Writes a line to the log, unless an earlier activation has written it.
    ///
    /// If the engine crashes, or the handler fails outside of its steps, the lines since the last
    /// recorded step are written again.
    pub fn log(&self, message: impl fmt::Display) {
        if !self.activation_state().is_replaying() {
            tracing::info!(run = %self.run_id(), workflow = self.workflow(), "{message}");
        }
    }

    /// Completes when this engine has to stop driving the run, because the run was cancelled or
    /// replaced, or the engine lost its lease.
    ///
    /// The handler is dropped then. Tasks that the handler has spawned should await this future and
    /// stop.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stop = self.0.stop.clone();
        async move {
            // An error means that the run is no longer driven.
            let _ = stop.wait_for(Option::is_some).await;
        }
    }

    /// Returns the outcome of a step that the store executes, once the outcome is durable.
    async fn outcome_of(&self, step: &str) -> Result<Outcome> {
        poll_fn(|cx| self.activation_state().poll_durable(cx)).await;
        let missing = || StepError::coded("BadRecord", format!("step `{step}` has no record"));
        self.record_of(step).await?.ok_or_else(missing)
    }

    /// Returns the record of a step.
    async fn record_of(&self, step: &str) -> Result<Option<Outcome>> {
        let _reading = Executing::read(self);
        let key = RowKey::Step(self.run_id().seq, step.to_owned());
        let reads = ReadSet::default().row(key.clone());
        let snapshot = self.store().read(reads).await?;
        match snapshot.rows.get(&key) {
            Some(Some(Row::Step(step))) => Ok(Some(step.result.clone())),
            _ => Ok(None),
        }
    }

    /// Returns the recorded value of a step, or records this one.
    async fn value_of<T: Serialize + DeserializeOwned>(
        &self,
        id: String,
        value: impl FnOnce() -> T,
    ) -> Result<T> {
        if let Some(outcome) = self.turn(&id, StepKind::Run).await? {
            return self.read_record(&id, outcome);
        }
        let value = value();
        let result = Ok::<Payload, _>(write(&value)?);
        self.activation_state().finish(NewStep { id, kind: StepKind::Run, result });
        Ok(value)
    }
}
