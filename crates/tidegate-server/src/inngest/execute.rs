//! Execution of a run whose function is in an app: the server calls the app, records what it has
//! done, and calls it again, until the function returns.
//!
//! An app is called in two ways: a *discovery* runs the function to its next operation, and a
//! *targeted* call runs exactly one step. Every activation begins with a discovery.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicI32, AtomicU32, Ordering},
    },
};

use axum::body::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use tidegate::{Ctx, Handler, NewRecord, Result, StepError, StepKind};
use tidegate_core::{
    definition::{Definition, Remote},
    json::Payload,
    row::RunError,
};

use super::{
    call::{Answer, Answered, Call, Client, is_nothing},
    group::Group,
    memo::{Frame, Memos, Moment, function_uuid},
    name::step_id,
    opcode::{Opcode, Operation},
    remote_of,
};

/// Handler of the functions of apps.
#[derive(Clone)]
struct RemoteFunction {
    client: Client,
    definition: Arc<Definition>,
}

/// Returns the handler of a definition whose code is in an app.
pub(crate) fn handler(client: &Client, definition: &Definition) -> Option<Arc<dyn Handler>> {
    remote_of(definition)?;
    let (client, definition) = (client.clone(), Arc::new(definition.clone()));
    Some(Arc::new(RemoteFunction { client, definition }))
}

impl Handler for RemoteFunction {
    fn call(&self, ctx: Ctx) -> Pin<Box<dyn Future<Output = Result<Payload>> + Send>> {
        let function = self.clone();
        Box::pin(async move { Execution::begin(function, ctx).await?.run().await })
    }
}

/// Version of the protocol in a call before the app's first answer: the SDK chooses.
const ANY_VERSION: i32 = -1;

/// One activation of a run.
pub(super) struct Execution {
    pub(super) ctx: Ctx,
    pub(super) client: Client,
    definition: Arc<Definition>,
    /// The app as it is now. It may have moved since the run's version was registered.
    remote: Remote,
    run: String,
    /// Names the lease under which a checkpoint is accepted.
    lease: String,
    /// Number of calls in this activation.
    calls: AtomicU32,
    frame: Frame,
    memos: Mutex<Memos>,
    version: AtomicI32,
    /// The last body, which is sent again while nothing has changed: the members of a group get
    /// the same.
    body: Mutex<Option<(usize, Moment, Bytes)>>,
}

/// Something that has happened in an activation.
pub(super) enum Turn {
    /// The app has answered to a discovery.
    Discovered {
        operations: Vec<Operation>,
        /// Whether the app has recorded steps before it answered.
        has_recorded: bool,
    },
    /// The app has answered to a call of this member of a group.
    Answered(Member, Vec<Operation>),
    /// A discovery is to be repeated.
    Discover,
    /// These steps are recorded.
    Recorded(Vec<NewRecord>),
    /// An attempt of a member has failed.
    Failed(Member, Failure),
    /// The backoff of a member has ended.
    Due(Member),
    /// The run ends.
    Over(Result<Payload>),
}

/// Member of a group.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) step: String,
    pub(super) race: bool,
}

/// Failed attempt of a member.
pub(super) struct Failure {
    pub(super) error: StepError,
    /// Whether the failure of the last attempt is one of the run, which the function cannot catch:
    /// the call itself has failed, not the step.
    pub(super) uncaught: bool,
}

type Turns = FuturesUnordered<Pin<Box<dyn Future<Output = Turn> + Send>>>;

impl Execution {
    async fn begin(function: RemoteFunction, ctx: Ctx) -> Result<Arc<Self>> {
        let RemoteFunction { client, definition } = function;
        let current = ctx.definition_of(&definition.app, &definition.name);
        let current = current.as_deref().and_then(remote_of);
        let remote = current.or(definition.remote.as_ref()).cloned();
        let remote = remote.ok_or_else(|| StepError::new("the function has no app").fatal())?;
        let run = ctx.run_id().to_string();
        let lease = ctx.lease_token();
        let uuid = function_uuid(&definition.app, &definition.name);
        let one = std::slice::from_ref(ctx.event());
        let frame = Frame::new(
            ctx.events().unwrap_or(one),
            (run.clone(), lease.clone()),
            &uuid,
            definition.retry.max_attempts,
            sdk_fetches(&remote),
        );
        let (memos, body) = (Mutex::default(), Mutex::default());
        let (version, calls) = (AtomicI32::new(ANY_VERSION), AtomicU32::new(0));
        let it = Self {
            ctx,
            client,
            definition,
            remote,
            run,
            lease,
            calls,
            frame,
            memos,
            version,
            body,
        };
        it.read_records().await?;
        Ok(Arc::new(it))
    }

    pub(super) fn memos(&self) -> MutexGuard<'_, Memos> {
        self.memos.lock().expect("nothing panics under this lock")
    }

    /// Adds the memos of all recorded steps. Returns whether there are new ones.
    async fn read_records(&self) -> Result<bool> {
        let records = self.ctx.recorded().await?;
        let mut memos = self.memos();
        let before = memos.len();
        for record in records {
            memos.add(&record.id, record.kind, &record.result);
        }
        Ok(memos.len() > before)
    }

    /// Drives the run to its end, or until it can only wait.
    async fn run(self: Arc<Self>) -> Result<Payload> {
        let (mut group, mut turns) = (Group::new(), Turns::new());
        let (mut first, mut answers) = (true, self.ctx.answers());
        loop {
            if group.is_stuck() {
                return Err(stuck());
            }
            if group.begin_discovery(self.version.load(Ordering::Relaxed)) {
                let plans_only = !group.is_empty() || (first && self.continues_group());
                first = false;
                turns.push(Box::pin(self.clone().discover(plans_only)));
            }
            // Everything that has happened at once is taken in before the next discovery.
            let mut turn = tokio::select! {
                biased;
                turn = turns.next() => turn,
                // The waits that have ended complete, and are the next turns.
                () = answers.next() => {
                    self.read_records().await?;
                    turns.next().now_or_never().flatten()
                }
            };
            while let Some(now) = turn {
                if let Some(result) = self.take(now, &mut group, &mut turns) {
                    return result;
                }
                turn = turns.next().now_or_never().flatten();
            }
        }
    }

    /// Whether members of a group that an earlier activation has begun are still under way: they
    /// wait, or their backoff is not over.
    fn continues_group(&self) -> bool {
        let failed = self.ctx.failed_attempts();
        let backs_off = |step: &String| self.ctx.backing_off(step).is_some();
        !self.ctx.pending().is_empty() || failed.keys().any(backs_off)
    }

    /// Takes in what has happened. Returns the run's result at its end.
    fn take(
        self: &Arc<Self>,
        turn: Turn,
        group: &mut Group,
        turns: &mut Turns,
    ) -> Option<Result<Payload>> {
        match turn {
            Turn::Over(result) => return Some(result),
            Turn::Discover => group.repeat_discovery(),
            Turn::Recorded(steps) => {
                for NewRecord { id, kind, result } in steps {
                    self.memos().add(&id, kind, &result);
                    group.end(&id);
                }
            }
            Turn::Failed(member, failure) => {
                turns.push(Box::pin(self.clone().back_off(member, failure)));
            }
            Turn::Due(member) => self.repeat(member, group, turns),
            Turn::Discovered { operations, has_recorded } => {
                group.end_discovery(has_recorded);
                return self.take_operations(operations, group, turns);
            }
            Turn::Answered(member, operations) => {
                let own = |it: &Operation| it.step == member.step;
                let ran = |it: &Operation| own(it) && !matches!(it.opcode, Opcode::Planned);
                if operations.iter().any(ran) {
                    group.remove(&member.step);
                } else {
                    self.miss(member, group, turns);
                }
                return self.take_operations(operations, group, turns);
            }
        }
        None
    }

    /// Repeats a step after its backoff. If nothing else is under way, the function is called as it
    /// was before the failure: it may have been changed since.
    fn repeat(self: &Arc<Self>, member: Member, group: &mut Group, turns: &mut Turns) {
        group.remove(&member.step);
        if self.memos().has(&member.step) || group.is_empty() {
            group.discover_again();
        } else if group.begin(&member.step, member.race) {
            turns.push(Box::pin(self.clone().run_step(member)));
        }
    }

    /// Counts a failed attempt of a step that the app did not find, and discovers what the code has
    /// instead.
    fn miss(self: &Arc<Self>, member: Member, group: &mut Group, turns: &mut Turns) {
        let message = format!(
            "the app did not run step `{}`, which it had planned: the code may have changed",
            member.step
        );
        let error = StepError::coded("StepNotFound", message);
        group.discover_again();
        turns.push(Box::pin(self.clone().back_off(member, Failure { error, uncaught: true })));
    }

    /// Begins the operations of an answer, and records the steps that have run.
    fn take_operations(
        self: &Arc<Self>,
        operations: Vec<Operation>,
        group: &mut Group,
        turns: &mut Turns,
    ) -> Option<Result<Payload>> {
        let (mut records, mut end) = (Vec::new(), None);
        for Operation { step, opcode, race } in operations {
            let opcode = match opcode {
                Opcode::Complete(value) => {
                    end = Some(value);
                    continue;
                }
                Opcode::Discover => {
                    group.discover_again();
                    continue;
                }
                // It has ended while the app was answering.
                _ if self.memos().has(&step) => continue,
                Opcode::Ran(value) => {
                    group.begin(&step, race);
                    records.push(NewRecord { id: step, kind: StepKind::Run, result: Ok(value) });
                    continue;
                }
                Opcode::Failed(error) => {
                    group.begin(&step, race);
                    records.push(failed(step, StepKind::Run, &error));
                    continue;
                }
                opcode => opcode,
            };
            if !group.begin(&step, race) {
                continue;
            }
            let (it, member) = (self.clone(), Member { step, race });
            turns.push(match opcode {
                Opcode::Planned => Box::pin(it.run_step(member)),
                Opcode::Threw(error) => {
                    Box::pin(it.back_off(member, Failure { error, uncaught: false }))
                }
                opcode => it.wait(member.step, opcode),
            });
        }
        if records.is_empty() {
            return end.map(Ok);
        }
        let recording = self.clone().record(records);
        turns.push(match end {
            None => Box::pin(recording),
            Some(value) => Box::pin(recording.map(|turn| match turn {
                Turn::Recorded(_) => Turn::Over(Ok(value)),
                failed => failed,
            })),
        });
        None
    }

    /// Calls the function for its next operations.
    async fn discover(self: Arc<Self>, plans_only: bool) -> Turn {
        self.ctx.resume_backoff("").await;
        let attempt = self.discovery_attempt(plans_only);
        let Answered { answer, checkpoints, .. } = self.call(None, attempt, plans_only).await;
        let answer = match answer {
            Ok(Answer::Returned(value)) => return Turn::Over(Ok(value)),
            Ok(Answer::Operations(operations)) => Ok(operations),
            Err(error) => Err(error),
        };
        let completes = |it: &Operation| matches!(it.opcode, Opcode::Complete(_));
        let ends = answer.as_ref().is_ok_and(|operations| operations.iter().any(completes));
        // The app may have recorded steps while it ran, also by another server.
        let reads = checkpoints && !plans_only && !ends;
        let read = if reads { self.read_records().await } else { Ok(false) };
        let has_recorded = match read {
            Ok(has_recorded) => has_recorded,
            Err(error) => return Turn::Over(Err(error)),
        };
        match answer {
            Ok(operations) => Turn::Discovered { operations, has_recorded },
            Err(error) => match self.ctx.backoff("", error).await {
                Ok(()) => Turn::Discover,
                Err(error) => Turn::Over(Err(error.fatal())),
            },
        }
    }

    /// Returns the number of attempts that have failed before a discovery. If one step has failed
    /// and nothing else is under way, the discovery is its next attempt.
    fn discovery_attempt(&self, plans_only: bool) -> u32 {
        let own = self.ctx.attempt("") - 1;
        let failed = self.ctx.failed_attempts();
        let mut steps = failed.iter().filter(|(step, _)| !step.is_empty());
        match (steps.next(), steps.next()) {
            (Some((_, step)), None) if !plans_only => own + step,
            _ => own,
        }
    }

    /// Makes one call for one step.
    async fn run_step(self: Arc<Self>, member: Member) -> Turn {
        self.ctx.resume_backoff(&member.step).await;
        // The step may cause the event for which a sibling waits: the wait is durable before.
        if let Err(error) = self.ctx.remember(Vec::new()).await {
            return Turn::Over(Err(error));
        }
        let (id, attempt) = (step_id(&member.step), self.ctx.attempt(&member.step) - 1);
        match self.call(Some(&id), attempt, true).await.answer {
            // Some SDKs answer so if they did not find the step.
            Ok(Answer::Returned(value)) if is_nothing(&value) => Turn::Answered(member, Vec::new()),
            // Another member has won a race meanwhile.
            Ok(Answer::Returned(value)) => Turn::Over(Ok(value)),
            Ok(Answer::Operations(operations)) => Turn::Answered(member, operations),
            Err(error) => Turn::Failed(member, Failure { error, uncaught: true }),
        }
    }

    async fn call(&self, step: Option<&str>, attempt: u32, plans_only: bool) -> Answered {
        let version = self.version.load(Ordering::Relaxed);
        let body = self.body(Moment { attempt, plans_only, version });
        let (url, run) = (self.remote.url.as_str(), self.run.as_str());
        let timeout_ms = self.definition.call_timeout_ms;
        let generation = self.lease.rsplit('-').next().unwrap_or_default();
        let request = format!("{run}.{generation}.{}", self.calls.fetch_add(1, Ordering::Relaxed));
        let repeats = self.definition.retry.max_attempts > 1;
        let call = Call { url, run, step, version, generation, request, body, timeout_ms, repeats };
        let answered = self.ctx.busy(self.client.call(call)).await;
        if let Some(version) = answered.version {
            self.version.store(version, Ordering::Relaxed);
        }
        answered
    }

    fn body(&self, moment: Moment) -> Bytes {
        let mut last = self.body.lock().expect("nothing panics under this lock");
        let memos = self.memos();
        match &*last {
            Some((len, known, body)) if (*len, *known) == (memos.len(), moment) => body.clone(),
            _ => {
                let body = Bytes::from(self.frame.body(&memos, moment));
                *last = Some((memos.len(), moment, body.clone()));
                body
            }
        }
    }

    /// Records steps that have run.
    pub(super) async fn record(self: Arc<Self>, records: Vec<NewRecord>) -> Turn {
        match self.ctx.remember(records.clone()).await {
            Ok(()) => Turn::Recorded(records),
            Err(error) => Turn::Over(Err(error.fatal())),
        }
    }

    /// Waits until a step may be tried again. After its last attempt, the function gets the error.
    async fn back_off(self: Arc<Self>, member: Member, failure: Failure) -> Turn {
        let Failure { error, uncaught } = failure;
        match self.ctx.backoff(&member.step, error).await {
            Ok(()) => Turn::Due(member),
            Err(error) if uncaught => Turn::Over(Err(error.fatal())),
            Err(error) => {
                let record = failed(member.step, StepKind::Run, &error);
                self.record(vec![record]).await
            }
        }
    }
}

/// Returns the record of a failed step.
pub(super) fn failed(id: String, kind: StepKind, error: &StepError) -> NewRecord {
    NewRecord { id, kind, result: Err(run_error(error)) }
}

fn run_error(error: &StepError) -> RunError {
    let details = error.details().cloned();
    RunError { details, ..RunError::new(error.code(), error.message()) }
}

/// Whether the SDK of an app fetches a large state itself. Go's does not.
fn sdk_fetches(remote: &Remote) -> bool {
    remote.settings.get("sdk").is_none_or(|sdk| sdk != "go")
}

fn stuck() -> StepError {
    let message = "the app was called again and again, and its function neither returned nor ran \
                   a step";
    StepError::coded("NoProgress", message).fatal()
}
