//! The public API of an engine.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use tidegate_core::{
    audit::{AuditEntry, Author},
    command::{Answer, Command, Refusal},
    definition::DEFAULT_APP,
    event::{MAX_EVENTS, NewEvent, Outcome, Posted},
    id::RunId,
    json::{MAX_EVENT_BYTES, Payload},
    reads::ReadSet,
    request::Request,
    row::{Ended, Ending, Row, RowKey, Run, Workspace},
    time::Timestamp,
};
use tidegate_store::{Store, dry_run, why};
use tracing::Instrument;

use crate::{
    builder::EngineBuilder,
    engine::Shared,
    error::Error,
    handler::{KeyFunction, check_name},
    health::Health,
    heartbeat,
    idempotency_key::IdempotentCall,
    registry::ServedVersion,
    step_error::StepError,
    telemetry,
};

/// An engine: decides which runs start, and drives them.
///
/// Cheap to clone. When the last clone is dropped, the engine stops as in a crash and releases its
/// store; other engines take over its runs when its lease expires. [`Engine::shutdown`] hands the
/// runs over at once.
///
/// ```
/// use tidegate::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let count = Workflow::new("count", async |_: Ctx, text: String| Ok(text.len()));
/// let engine = Engine::in_memory().workflow(count).start().await?;
/// // An event starts all workflows that it triggers: here the workflow of the same name.
/// let posted = engine.send("count", "four").await?;
/// let run = engine.handle::<usize>(posted.run().expect("no control drops it"));
/// assert_eq!(run.output().await?, 4);
/// engine.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "an engine stops when its last handle is dropped"]
pub struct Engine {
    shared: Arc<Shared>,
    /// Stops the engine when its last clone is dropped. The engine's own tasks do not hold one.
    _alive: Arc<StopOnDrop>,
    ws: Workspace,
    /// Idempotency key under which commands of this handle are executed at most once.
    once: Option<Arc<IdempotentCall>>,
    /// Author of the changes of this handle, for the audit log.
    author: Arc<Author>,
    /// Entry of the audit log for the next change of this handle.
    entry: Option<Arc<PendingEntry>>,
}

/// Entry of the audit log that is written with the first change of a request.
#[derive(Debug)]
struct PendingEntry {
    entry: AuditEntry,
    is_written: AtomicBool,
}

/// Stops an engine when it is dropped.
#[derive(Debug)]
struct StopOnDrop(Arc<Shared>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop_tasks();
    }
}

impl Engine {
    /// Returns a builder for an engine on a store.
    pub fn builder(store: Arc<dyn Store>) -> EngineBuilder {
        EngineBuilder::new(store)
    }

    pub(crate) fn new(shared: Arc<Shared>, ws: Workspace) -> Self {
        let alive = Arc::new(StopOnDrop(shared.clone()));
        Self { shared, _alive: alive, ws, once: None, author: Arc::default(), entry: None }
    }

    /// Returns a handle to the same engine that acts in another workspace.
    pub fn in_workspace(&self, ws: impl Into<Workspace>) -> Self {
        Self { ws: ws.into(), once: None, ..self.clone() }
    }

    /// Returns a handle to the same engine whose changes name this author in the audit log.
    pub fn acting_as(&self, author: Author) -> Self {
        Self { author: Arc::new(author), ..self.clone() }
    }

    /// Returns a handle to the same engine that writes this entry of the audit log in the
    /// transaction of its first change. Changes of overrides have entries of their own.
    pub fn audited(&self, entry: AuditEntry) -> Self {
        let author = Arc::new(entry.by.clone());
        let entry = PendingEntry { entry, is_written: AtomicBool::new(false) };
        Self { author, entry: Some(Arc::new(entry)), ..self.clone() }
    }

    /// Returns the entry of the audit log that the next change has to write.
    pub fn audit_entry(&self) -> Option<&AuditEntry> {
        let pending = self.entry.as_ref()?;
        (!pending.is_written.load(Ordering::SeqCst)).then_some(&pending.entry)
    }

    pub(crate) fn author(&self) -> &Author {
        &self.author
    }

    pub(crate) fn under(&self, once: Arc<IdempotentCall>) -> Self {
        Self { once: Some(once), ..self.clone() }
    }

    pub(crate) fn ws(&self) -> Workspace {
        self.ws.clone()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns the answer that the command would get now, without executing it.
    pub(crate) async fn would(&self, command: Command) -> Result<Answer, Error> {
        let (answer, seen) = dry_run(&**self.store(), (command, 0)).await?;
        let mut answer = answer?;
        answer.wait_for_worker(&self.shared.would_wait(&seen));
        Ok(answer)
    }

    /// Submits a command. The command is sent at once, before the returned future is polled.
    pub(crate) fn ask(
        &self,
        command: Command,
    ) -> impl Future<Output = Result<Answer, Error>> + Send + 'static {
        let (once, entry) = (self.once.clone(), self.entry.clone());
        let command = match (self.audit_entry(), command) {
            (Some(entry), command) if !matches!(command, Command::Override { .. }) => {
                Command::Audited { entry: Box::new(entry.clone()), command: Box::new(command) }
            }
            (_, command) => command,
        };
        let command = match &once {
            Some(once) => once.wrap(command),
            None => command,
        };
        let reply = self.shared.ask(command);
        async move {
            let answer = reply.await?;
            if let Some(entry) = entry {
                entry.is_written.store(true, Ordering::SeqCst);
            }
            Ok(match once {
                Some(once) => once.unwrap(answer),
                None => answer,
            })
        }
    }

    pub(crate) fn timer(&self) -> &dyn crate::timer::Timer {
        &*self.shared.timer
    }

    /// Returns the workspace that this handle acts in.
    pub fn workspace(&self) -> &str {
        &self.ws
    }

    /// Returns the time by this machine's clock.
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// Returns the store of this engine.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.store
    }

    /// Posts an event.
    ///
    /// The event and its verdicts are durable when this returns.
    pub async fn send(&self, name: &str, data: impl Serialize) -> Result<Posted, Error> {
        let event = new_event(name, data)?;
        let mut posted = self.send_all(vec![event]).await?;
        posted.pop().ok_or_else(|| Error::Value("the event was not answered".to_owned()))
    }

    /// Posts several events, all or none.
    pub async fn send_all(&self, events: Vec<NewEvent>) -> Result<Vec<Posted>, Error> {
        check_events(&events)?;
        let span = telemetry::post_span(&self.ws, &events);
        let command = Command::Post { ws: self.ws.clone(), events };
        match self.ask(command).instrument(span.clone()).await? {
            Answer::Posted(posted) => {
                telemetry::posted(&span, &posted);
                Ok(posted)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Dispatches a request to an action.
    ///
    /// Every transport calls this method.
    pub async fn dispatch(&self, mut request: Request) -> Result<Outcome, Error> {
        check_request(&request)?;
        request.function_key = self.function_key(&request);
        let span = telemetry::dispatch_span(&self.ws, &request);
        let command = Command::Dispatch { ws: self.ws.clone(), request };
        match self.ask(command).instrument(span.clone()).await? {
            Answer::Admitted(outcome) => {
                telemetry::dispatched(&span, &outcome);
                Ok(outcome)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Dispatches two requests in one transaction: the second run starts when the first has
    /// completed, and is cancelled if the first fails or is cancelled.
    ///
    /// The second run's position in every queue is fixed now. Returns the outcomes of both; the
    /// second is `None` if the first was refused.
    ///
    /// While the second run waits, it keeps its position and all gates that a run holds until it
    /// ends. Give the first action the policy `allow` and no such gate (`singleton`, `span: run`),
    /// or queue both at the same gate: otherwise the runs of two such calls can wait for each
    /// other.
    pub async fn dispatch_then(
        &self,
        mut first: Request,
        mut then: Request,
    ) -> Result<(Outcome, Option<Outcome>), Error> {
        check_request(&first)?;
        check_request(&then)?;
        if first.deliver.is_some() || then.deliver.is_some() {
            let rule = "two requests of one transaction are delivered at once: remove `deliver`";
            return Err(Error::Value(rule.to_owned()));
        }
        first.function_key = self.function_key(&first);
        then.function_key = self.function_key(&then);
        let span = telemetry::dispatch_span(&self.ws, &first);
        let (ws, first, then) = (self.ws.clone(), Box::new(first), Box::new(then));
        let command = Command::DispatchThen { ws, first, then };
        match self.ask(command).instrument(span.clone()).await? {
            Answer::AdmittedBoth(first, then) => {
                telemetry::dispatched(&span, &first);
                Ok((first, then.map(|then| *then)))
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Waits for a run to end, whichever engine drives it.
    pub async fn ended(&self, run: RunId) -> Result<Ended, Error> {
        // Subscribe before the first lookup, so that an end between the two is not missed.
        let mut end = self.shared.endings.subscribe(run);
        let mut wait = FIRST_LOOK;
        loop {
            match end.told.try_recv() {
                Ok(ended) if ended.ws == self.ws => return Ok(ended),
                Ok(_) => return Err(Refusal::NoRun(run).into()),
                Err(_) if self.shared.drives_any(run.seq) => {}
                Err(_) => match self.look_up(run).await? {
                    (_, Some(ended)) => return Ok(ended),
                    // No run and no end: an open window or buffer may still become this run.
                    (None, None) if !self.is_promised(run).await? => {
                        return Err(Refusal::NoRun(run).into());
                    }
                    (Some(_) | None, None) => {}
                },
            }
            let timer = &*self.shared.timer;
            tokio::select! {
                biased;
                ended = &mut end.told => if let Ok(ended) = ended && ended.ws == self.ws {
                    return Ok(ended);
                },
                () = timer.sleep_until(timer.elapsed() + wait) => {}
            }
            wait = (wait * 2).min(self.shared.options.poll);
        }
    }

    /// Waits for a run to end. If a newer run displaced it before it started (`latest`), waits for
    /// the newer run, and returns that run's end.
    pub async fn ended_or_displaced(&self, mut run: RunId) -> Result<Ended, Error> {
        loop {
            let ended = self.ended(run).await?;
            match ended.ending.carried_by() {
                Some(newer) => run = newer,
                None => return Ok(ended),
            }
        }
    }

    /// Waits for a run to end, and returns its output. If a newer run displaced it before it
    /// started (`latest`), returns the newer run's output.
    pub async fn output<T: DeserializeOwned>(
        &self,
        run: RunId,
    ) -> Result<Result<T, StepError>, Error> {
        Ok(match self.ended_or_displaced(run).await?.ending {
            Ending::Completed { output } => {
                Ok(serde_json::from_str(output.as_str()).map_err(|error| {
                    Error::Value(format!("the output of {run} cannot be read: {error}"))
                })?)
            }
            Ending::Failed { error } => Err(StepError::recorded(&error)),
            Ending::Cancelled { reason, .. } => Err(StepError::coded("Cancelled", reason).fatal()),
        })
    }

    /// Returns whether this id is a live run, an ended run, or an open window or buffer that will
    /// become the run.
    pub(crate) async fn is_promised(&self, run: RunId) -> Result<bool, Error> {
        match why(&*self.shared.store, &self.ws, run).await? {
            Ok(_) => Ok(true),
            Err(Refusal::NoRun(_)) => Ok(false),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Returns a run's current state: the live run, or its end.
    pub async fn look_up(&self, run: RunId) -> Result<(Option<Run>, Option<Ended>), Error> {
        let reads = ReadSet::default().row(RowKey::Run(run.seq)).row(RowKey::Ended(run.seq));
        let snapshot = self.shared.store.read(reads).await?;
        let row = |key: RowKey| snapshot.rows.get(&key).cloned().flatten();
        let live = row(RowKey::Run(run.seq)).and_then(|row| row.as_run().cloned());
        let live = live.filter(|live| live.id == run && live.ws == self.ws);
        let ended = match row(RowKey::Ended(run.seq)) {
            Some(Row::Ended(ended)) if ended.id == run && ended.ws == self.ws => Some(ended),
            _ => None,
        };
        Ok((live, ended))
    }

    /// Cancels a run.
    ///
    /// A run that is being driven stops at its next await.
    pub async fn cancel(&self, run: RunId, reason: &str) -> Result<(), Error> {
        let (ws, reason) = (self.ws.clone(), reason.to_owned());
        self.ask(Command::Cancel { ws, run, reason }).await.map(drop)
    }

    /// Pauses a run at its next boundary.
    pub async fn pause(&self, run: RunId) -> Result<(), Error> {
        self.ask(Command::Pause { ws: self.ws.clone(), run }).await.map(drop)
    }

    /// Resumes a paused run.
    pub async fn resume(&self, run: RunId) -> Result<(), Error> {
        self.ask(Command::Resume { ws: self.ws.clone(), run }).await.map(drop)
    }

    /// Starts a new run of the current version with the input of a run that has ended.
    pub async fn replay(&self, run: RunId) -> Result<Outcome, Error> {
        self.again(run, None, None).await
    }

    /// Replays a run as [`Engine::replay`] does, with another input.
    pub async fn replay_with(&self, run: RunId, input: impl Serialize) -> Result<Outcome, Error> {
        self.again(run, Some(payload(input)?), None).await
    }

    /// Starts a new run from a step of a run that has ended.
    ///
    /// The new run starts with copies of the records before that step. Idempotency keys of steps
    /// stay the same.
    pub async fn retry_from(&self, run: RunId, step: &str) -> Result<Outcome, Error> {
        self.again(run, None, Some(step.to_owned())).await
    }

    async fn again(
        &self,
        run: RunId,
        input: Option<Payload>,
        from_step: Option<String>,
    ) -> Result<Outcome, Error> {
        let ws = self.ws.clone();
        let function_key = self.function_key_again(run, input.as_ref()).await?;
        let command = Command::Replay { ws, run, input, from_step, function_key };
        match self.ask(command).await? {
            Answer::Admitted(outcome) => Ok(outcome),
            other => Err(unexpected(&other)),
        }
    }

    /// Sends a signal to a run. The run receives the signal when it waits for it.
    pub async fn signal(&self, run: RunId, name: &str, data: impl Serialize) -> Result<(), Error> {
        let (ws, name, data) = (self.ws.clone(), name.to_owned(), payload(data)?);
        self.ask(Command::Signal { ws, run, name, data }).await.map(drop)
    }

    /// Sends a signal to the run that [waits](crate::Ctx::wait_for_signal_by_name) for its name.
    /// Returns the run; `None` if no run of the workspace waits for it.
    pub async fn signal_by_name(
        &self,
        name: &str,
        data: impl Serialize,
    ) -> Result<Option<RunId>, Error> {
        let (ws, name, data) = (self.ws.clone(), name.to_owned(), payload(data)?);
        match self.ask(Command::SignalByName { ws, name, data }).await? {
            Answer::Signalled(run) => Ok(run),
            other => Err(unexpected(&other)),
        }
    }

    /// Releases a registered version: new runs use it.
    ///
    /// To roll back, release the earlier version.
    pub async fn release(
        &self,
        app: &str,
        name: &str,
        version: u32,
    ) -> Result<tidegate_core::version::Released, Error> {
        let (ws, app, name) = (self.ws.clone(), app.to_owned(), name.to_owned());
        match self.ask(Command::Release { ws, app, name, version }).await? {
            Answer::Released(released) => Ok(released),
            other => Err(unexpected(&other)),
        }
    }

    /// Retires a workflow: no new run of it starts.
    ///
    /// Its existing runs continue under its controls, and its history stays. A release or a new
    /// definition ends the retirement.
    pub async fn retire(
        &self,
        app: &str,
        name: &str,
    ) -> Result<tidegate_core::version::Retired, Error> {
        let (ws, app, name) = (self.ws.clone(), app.to_owned(), name.to_owned());
        match self.ask(Command::Retire { ws, app, name }).await? {
            Answer::Retired(retired) => Ok(retired),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the code of this version of a workflow, or else of the newest version that this
    /// engine serves; `None` if it serves none.
    pub(crate) fn code(
        &self,
        app: &str,
        workflow: &str,
        version: u32,
    ) -> Option<Arc<ServedVersion>> {
        let registry = self.shared.registry.lock().expect("nothing panics under this lock");
        registry.code(app, workflow, version)
    }

    /// Returns the key function of an action; `None` if this engine does not serve the action.
    pub(crate) fn key_function(&self, app: &str, action: &str) -> Option<KeyFunction> {
        let registry = self.shared.registry.lock().expect("nothing panics under this lock");
        registry.key_function(app, action)
    }

    /// Returns the number of runs that this engine is driving.
    pub fn driven(&self) -> usize {
        self.shared.driven()
    }

    /// Takes no more runs, lets the driven runs continue until the deadline, hands over the runs
    /// that remain, and shuts down.
    pub async fn drain(&self, deadline: Duration) {
        self.hand_over(deadline).await;
        self.leave().await;
    }

    /// Takes no more runs, hands over the driven runs, and shuts down: another engine continues
    /// them.
    pub async fn shutdown(&self) {
        self.hand_over(Duration::ZERO).await;
        self.leave().await;
    }

    /// Takes no more runs, lets the driven runs continue until the deadline, and hands over the
    /// runs that remain.
    ///
    /// Unlike after [`Engine::drain`], the engine still answers calls: a server first finishes the
    /// requests that it has accepted, then calls [`Engine::shutdown`].
    ///
    /// # Cancellation
    ///
    /// If this future is dropped before it completes, the driven runs continue, and no new ones are
    /// taken.
    pub async fn hand_over(&self, deadline: Duration) {
        self.shared.committer.close();
        self.shared.reactions.close();
        if !deadline.is_zero() {
            self.idle(deadline).await;
        }
        self.shared.hand_back();
        self.idle(HAND_OVER).await;
    }

    /// Returns the store's health as this engine last observed it, for readiness probes.
    ///
    /// Never waits for the store.
    pub fn health(&self) -> Health {
        let shared = &self.shared;
        shared.health.health(shared.timer.elapsed(), shared.options.lease_ttl)
    }

    /// Returns the number of commands that wait for a transaction, as a measure of load.
    pub fn pending(&self) -> usize {
        self.shared.committer.pending()
    }

    /// Returns whether this engine takes no more runs, because it drains or is shut down.
    pub fn is_draining(&self) -> bool {
        self.shared.committer.is_closed()
    }

    /// Stops all tasks, and removes this engine from the store.
    async fn leave(&self) {
        self.kill();
        if self.shared.driven() == 0 {
            heartbeat::leave(&self.shared).await;
        }
        // The wait is limited, because a handler that never returns keeps its task alive.
        let timer = &*self.shared.timer;
        tokio::select! {
            biased;
            () = self.shared.tasks.gone() => {}
            () = timer.sleep_until(timer.elapsed() + HAND_OVER) => {}
        }
    }

    /// Waits until no run is driven, or until the deadline.
    async fn idle(&self, deadline: Duration) {
        let timer = &*self.shared.timer;
        let mut deadline = timer.sleep_until(timer.elapsed() + deadline);
        loop {
            let mut idle = std::pin::pin!(self.shared.idle.notified());
            idle.as_mut().enable();
            if self.shared.is_idle() {
                return;
            }
            tokio::select! {
                biased;
                () = idle => {}
                () = deadline.as_mut() => return,
            }
        }
    }

    /// Stops the tasks without handing over any run, as a crash would.
    pub(crate) fn kill(&self) {
        self.shared.stop_tasks();
    }
}

/// First interval of polling for the end of a run that another engine drives. The interval doubles
/// each time.
const FIRST_LOOK: Duration = Duration::from_millis(25);

/// Maximum time that a shutdown waits for its tasks and their last reports. Supervisors often kill
/// a process little more than a second after they stop it.
const HAND_OVER: Duration = Duration::from_millis(900);

/// Serializes a value into a payload.
pub(crate) fn payload(data: impl Serialize) -> Result<Payload, Error> {
    let text = serde_json::to_vec(&data).map_err(|error| Error::Value(error.to_string()))?;
    Ok(Payload::parse(&text, MAX_EVENT_BYTES)?)
}

/// Creates an event to post.
pub fn new_event(name: &str, data: impl Serialize) -> Result<NewEvent, Error> {
    let (name, data) = (name.to_owned(), payload(data)?);
    Ok(NewEvent::new(name, data))
}

/// Maximum size of the attributes of an event: they describe its sender, and are part of every
/// answer that has the whole event.
const MAX_ATTRIBUTES_BYTES: usize = 64 * 1024;

/// Checks the rules that apply to the events of every sender.
pub(crate) fn check_events(events: &[NewEvent]) -> Result<(), Error> {
    if events.len() > MAX_EVENTS {
        let got = events.len();
        return Err(Error::Value(format!("at most {MAX_EVENTS} events per call, got {got}")));
    }
    for (place, event) in events.iter().enumerate() {
        let ids = event.dedupe_id.iter().map(|id| ("dedupeId", id.as_str()));
        for (what, text) in ids.chain([("name", event.name.as_str())]) {
            check_name(text)
                .map_err(|rule| Error::Value(format!("event {place}: its {what} {rule}")))?;
        }
        if let Some(Err(rule)) = event.attributes.as_ref().map(check_attributes) {
            return Err(Error::Value(format!("event {place}: its attributes {rule}")));
        }
    }
    Ok(())
}

/// Checks the attributes of an event. The error describes the rule that they break.
fn check_attributes(attributes: &Payload) -> Result<(), String> {
    let text = attributes.as_str().trim();
    if !text.starts_with('{') || text.len() > MAX_ATTRIBUTES_BYTES {
        let got = text.len();
        return Err(format!(
            "must be an object of at most {MAX_ATTRIBUTES_BYTES} bytes, got {got} bytes"
        ));
    }
    // Every event has these members itself.
    for name in ["name", "data", "ts"] {
        if attributes.select(&[name.to_owned()]).is_some() {
            return Err(format!("must not have `{name}`: set the field of the event"));
        }
    }
    Ok(())
}

/// Checks the rules that apply to the requests of every sender.
pub(crate) fn check_request(request: &Request) -> Result<(), Error> {
    for (what, name) in [("session", &request.session), ("user", &request.user)] {
        let checked = name.as_deref().map_or(Ok(()), check_name);
        checked.map_err(|rule| Error::Value(format!("the request's {what} {rule}")))?;
    }
    Ok(())
}

/// Creates a request to an action of the default app, without session and user.
pub fn new_request(flow: &str, action: &str, input: impl Serialize) -> Result<Request, Error> {
    Ok(Request {
        app: DEFAULT_APP.to_owned(),
        flow: flow.to_owned(),
        action: action.to_owned(),
        input: payload(input)?,
        session: None,
        user: None,
        metadata: Payload::null(),
        function_key: None,
        max_wait_ms: None,
        deliver: None,
    })
}

pub(crate) fn unexpected(answer: &Answer) -> Error {
    Error::Value(format!("the command got an answer of another kind: {answer:?}"))
}
