//! Reports of workers: finished steps, and the next state of the run.
//!
//! Every report has the fence of its lease. It is refused after another worker has leased the run
//! or the run was cancelled (spec replace, steps).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    control,
    end::{self, end},
    named,
    output::{self, NewChunk},
    wait,
};
use crate::{
    catalog::Entry,
    command::Refusal,
    draft::{Decided, Draft, Stop},
    event::{self, NewEvent},
    flow::{
        adaptive::{self, NewOverload},
        admit::admit,
        close::{self, NewClose},
        gate,
        plan::{Candidate, Origin, Results},
        pool, receipts, settle,
        step_pool::{self, PoolAnswer, PoolAsk, Request},
        verdict::Verdict,
    },
    id::{RunId, Seq},
    json::Payload,
    reads::ReadSet,
    row::{
        Begun, Ending, EngineId, Event, Kind, Parent, Phase, Progress, Purpose, Row, RowKey, Run,
        RunError, Step, StepKind, Wait, WaitFilter, WaitOn, Workspace,
    },
    session::{self, NewSessionOp},
    stream::{self, Commit, StreamRefusal},
    time::Timestamp,
};

/// Report of a worker on a run that it has leased.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The run.
    pub run: Seq,
    /// The worker's engine.
    pub engine: EngineId,
    /// The fence of the worker's lease.
    pub fence: i64,
    /// Steps that finished since the last report.
    pub steps: Vec<NewStep>,
    /// Events, signals and settlements of steps, in the transaction that records the step.
    pub sends: Vec<NewSend>,
    /// Stream commits of steps, in the transaction that records the step.
    pub commits: Vec<NewCommit>,
    /// Chunks that the run has emitted since the last report.
    pub chunks: Vec<NewChunk>,
    /// The run's progress, if it has changed.
    pub progress: Option<Progress>,
    /// Session operations of steps, in the transaction that records the step.
    pub session: Vec<NewSessionOp>,
    /// Gates that the run closes because a service has refused its call.
    pub closes: Vec<NewClose>,
    /// Overloads of services that the run has met.
    pub overloads: Vec<NewOverload>,
    /// Steps whose attempts ended without a record. Their places in pools end.
    pub over: Vec<String>,
    /// Waits that begin now, while the worker continues. They need not be among the waits of
    /// [`Then::Suspend`] again.
    pub waits: Vec<NewWait>,
    /// Steps that ask for their pools. Only a report after which the worker continues has them.
    pub asks: Vec<NewAsk>,
    /// The next state of the run.
    pub then: Then,
}

impl Record {
    /// Creates a report that has only the next state of the run.
    pub fn new(run: Seq, engine: EngineId, fence: i64, then: Then) -> Self {
        Self { run, engine, fence, then, ..Self::default() }
    }

    /// Returns the reads of a plain report: its run and its steps. None if the report may need
    /// other rows, which only a probe can find.
    ///
    /// Most reports are plain. Without this function, probing them took a tenth of all CPU time.
    pub fn plain_reads(&self, known: &Run) -> Option<ReadSet> {
        let Self { sends, chunks, progress, session, commits, closes, .. } = self;
        let Self { over, asks, waits, .. } = self;
        let quiet = chunks.is_empty() && progress.is_none() && commits.is_empty();
        let quiet = quiet && closes.is_empty() && over.is_empty() && asks.is_empty();
        let quiet = quiet && waits.is_empty();
        let brings_steps = sends.is_empty() && session.is_empty() && quiet;
        let awaited = known.then.is_some() || known.parent.is_some();
        let alone = known.plan.is_empty() && !awaited && known.staged == 0;
        let simple = known.waits.is_empty() && known.purpose == Purpose::Ordinary;
        let ends_well = matches!(self.then, Then::Continue | Then::Stay | Then::Complete(_));
        let steps = self.steps.iter().map(|step| RowKey::Step(self.run, step.id.clone()));
        let reads = || steps.fold(ReadSet::default().row(RowKey::Run(self.run)), ReadSet::row);
        (brings_steps && alone && simple && ends_well).then(reads)
    }
}

/// A step that finished.
#[derive(Clone, Debug, PartialEq)]
pub struct NewStep {
    /// The step's id.
    pub id: String,
    /// The step's kind.
    pub kind: StepKind,
    /// The step's result.
    pub result: Result<Payload, RunError>,
}

/// Step that asks for its pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAsk {
    /// The step's id.
    pub step: String,
    /// The pools.
    pub pools: Vec<PoolAsk>,
}

/// Event, signal or settlement that a step sends. The answer to it is the step's result.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSend {
    /// The step's id.
    pub step: String,
    /// The message.
    pub what: Sent,
}

impl NewSend {
    /// Creates a [`NewSend`] of an event.
    pub fn event(step: impl Into<String>, event: NewEvent) -> Self {
        Self { step: step.into(), what: Sent::Event(event) }
    }
}

/// Message to send.
#[derive(Clone, Debug, PartialEq)]
pub enum Sent {
    /// An event, to all workflows and waits that match.
    Event(NewEvent),
    /// A signal, to one run.
    Signal {
        /// The run.
        run: RunId,
        /// The signal's name.
        name: String,
        /// The payload.
        data: Payload,
    },
    /// The units that the run has really taken of a pool (spec L10). The answer has the reserved
    /// units.
    Settle {
        /// The pool.
        pool: String,
        /// The units.
        actual: u32,
    },
}

impl Sent {
    /// Returns the payload, if there is one.
    pub fn data(&self) -> Option<&Payload> {
        match self {
            Self::Event(event) => Some(&event.data),
            Self::Signal { data, .. } => Some(data),
            Self::Settle { .. } => None,
        }
    }

    /// Returns the kind of the step that sends it.
    fn kind(&self) -> StepKind {
        match self {
            Self::Event(_) | Self::Signal { .. } => StepKind::Send,
            Self::Settle { .. } => StepKind::Settle,
        }
    }
}

/// Events that a step commits to a stream. Their positions are the step's output.
///
/// If the commit conflicts with another one, the step is not recorded: the worker executes it again
/// on the current state of the stream.
#[derive(Clone, Debug, PartialEq)]
pub struct NewCommit {
    /// The step's id.
    pub step: String,
    /// The events, in the run's workspace.
    pub commit: Commit,
}

/// Next state of a run after a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Then {
    /// The run keeps its lease: the same worker continues to execute it.
    #[default]
    Continue,
    /// The run keeps its lease, also if it is to be paused: the report is not that of its worker.
    Stay,
    /// The run waits until one of these waits ends.
    Suspend(Vec<NewWait>),
    /// The handler returned this output.
    Complete(Payload),
    /// The handler failed permanently.
    Fail(RunError),
    /// The engine shuts down: another engine continues the run. This does not count as a death.
    Yield,
}

/// A wait that begins now.
#[derive(Clone, Debug, PartialEq)]
pub struct NewWait {
    /// The step that waits and gets the result.
    pub step: String,
    /// What the step waits for.
    pub on: NewWaitOn,
    /// The time at which the wait ends without an event.
    pub until: Option<Until>,
}

/// End of a wait, or of the delay of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// A point in time.
    At(Timestamp),
    /// A duration in milliseconds after the start of the wait, by the store's clock.
    In(u64),
}

impl From<Timestamp> for Until {
    fn from(at: Timestamp) -> Self {
        Self::At(at)
    }
}

impl From<Duration> for Until {
    fn from(time: Duration) -> Self {
        Self::In(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }
}

impl Until {
    pub(crate) fn moment(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::In(ms) => now.plus_ms(ms),
        }
    }

    pub(crate) fn span(self) -> Option<u64> {
        match self {
            Self::At(_) => None,
            Self::In(ms) => Some(ms),
        }
    }
}

/// Condition of a wait.
#[derive(Clone, Debug, PartialEq)]
pub enum NewWaitOn {
    /// The time `until`.
    Time,
    /// The next attempt of the step, after it has failed once more.
    Retry {
        /// The number of the attempt that has failed, from 1. A repeated report counts it once.
        attempt: u32,
    },
    /// The next attempt of the step, after it has closed a gate: it does not count as failed.
    Deferred {
        /// The number of the attempt, from 1.
        attempt: u32,
    },
    /// A place of the step in its pools, which had no room when it asked. The run parks for one
    /// step; others ask again.
    Pools(Vec<PoolAsk>),
    /// An event of this name whose fields have these encoded values.
    Event {
        /// The event's name.
        name: String,
        /// Pairs of path and encoded value.
        matches: Vec<(String, Vec<u8>)>,
        /// A further condition.
        filter: Option<WaitFilter>,
        /// Whether the answer is the whole event, and not only its data.
        whole: bool,
    },
    /// A signal that is sent by its name, see [`named::signal`].
    Named {
        /// The signal's name.
        name: String,
        /// Whether a wait of another step for the same name ends, as if its time were over. If not,
        /// this wait fails.
        replace: bool,
    },
    /// The end of a wait that the run has registered before. Nothing new begins.
    Registered,
    /// A signal of this name.
    Signal {
        /// The signal's name.
        name: String,
    },
    /// The end of a child run, which starts now.
    Invoke {
        /// The child's app.
        app: String,
        /// The child's workflow.
        workflow: String,
        /// The child's input.
        data: Payload,
    },
}

/// Answer to a worker's report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The worker continues.
    GoOn,
    /// The worker continues. The answers to the steps that have asked for their pools.
    Asked(Vec<(String, PoolAnswer)>),
    /// The worker no longer drives the run: it waits, is queued again, is paused or has ended.
    LetGo,
    /// The worker has to stop and confirm it: an event that the run sent has replaced the run.
    Stop,
}

/// The id under which failures of the handler itself are counted, outside of its steps.
pub const HANDLER: &str = "";

/// Decides a worker's report.
pub fn record(draft: &mut Draft, report: &Record) -> Decided<Recorded> {
    let run = leased(draft, report)?;
    let ws = run.ws.clone();
    output::write(draft, run, report)?;
    for new in &report.overloads {
        adaptive::overload(draft, report.run, new)?;
    }
    for new in &report.closes {
        close::close(draft, report.run, new)?;
    }
    let (mut succeeded, mut is_progress) = (BTreeSet::new(), false);
    for NewStep { id, kind, result } in report.steps.clone() {
        let is_success = kind == StepKind::Run && result.is_ok();
        let is_new = remember(draft, report, id.clone(), kind, |_| Ok(result))?;
        is_progress |= is_new;
        succeeded.extend(Some(id).filter(|_| is_success && is_new));
    }
    for asked in &report.session {
        let key = RowKey::Step(report.run, asked.step.clone());
        if let Some(Row::Step(step)) = draft.row::<Refusal>(&key)? {
            asked.check_repeats(step).map_err(|error| Stop::Refused(Refusal::Session(error)))?;
        }
        is_progress |= remember(draft, report, asked.step.clone(), StepKind::State, |draft| {
            session::perform(draft, report.run, asked)
        })?;
    }
    for NewSend { step, what } in &report.sends {
        let run = report.run;
        let send = |draft: &mut Draft| send(draft, &ws, run, what);
        is_progress |= remember(draft, report, step.clone(), what.kind(), send)?;
    }
    for asked in &report.commits {
        is_progress |= append(draft, report, asked)?;
    }
    // The run is read again, because an event that it sent may have ended its own wait, or replaced
    // it.
    let mut run = match leased(draft, report) {
        Err(Stop::Refused(_)) => return Ok(Recorded::Stop),
        run => run?,
    };
    if run.begun == Begun::No {
        run.begun = Begun::Yes;
    }
    let recorded = report.steps.iter().map(|step| &step.id);
    let recorded = recorded.chain(report.sends.iter().map(|send| &send.step));
    let recorded = recorded.chain(report.commits.iter().map(|commit| &commit.step));
    for step in recorded.chain(report.session.iter().map(|op| &op.step)) {
        run.failures.remove(step);
        run.deferrals.remove(step);
        run.made_progress();
        // The step has its result now. Its wait is removed, because its end would record the step a
        // second time.
        wait::drop_one(draft, &mut run, step);
    }
    if is_progress {
        run.failures.remove(HANDLER);
    }
    for step in &succeeded {
        adaptive::succeed(&mut run, step);
    }
    run = begin_waits(draft, run, report)?;
    if report.then == Then::Stay || report.then == Then::Continue && !run.pausing {
        return go_on(draft, run, report, |step| succeeded.contains(step));
    }
    // Places of steps end with the lease, also those of steps that had not begun.
    let freed = step_pool::leave(draft, &mut run, |_| true, |step| succeeded.contains(step))?;
    draft.set_aside(freed);
    release(draft, run, report.then.clone())?;
    gate::hand_on(draft, Vec::new())?;
    Ok(Recorded::LetGo)
}

/// Lets the worker continue. Places of steps that have ended are handed on first, so that no step
/// that asks now passes the runs that wait.
fn go_on(
    draft: &mut Draft,
    mut run: Run,
    report: &Record,
    succeeded: impl Fn(&str) -> bool,
) -> Decided<Recorded> {
    let recorded = |step: &str| report.steps.iter().any(|it| it.id == step);
    let is_over = |step: &str| recorded(step) || report.over.iter().any(|it| it == step);
    let freed = step_pool::leave(draft, &mut run, is_over, succeeded)?;
    if freed.is_empty() && report.asks.is_empty() {
        draft.put(run);
        return Ok(Recorded::GoOn);
    }
    draft.put(run.clone());
    gate::hand_on(draft, freed)?;
    if report.asks.is_empty() {
        return Ok(Recorded::GoOn);
    }
    let mut answers = Vec::with_capacity(report.asks.len());
    for NewAsk { step, pools } in &report.asks {
        answers.push((step.clone(), step_pool::ask(draft, &mut run, step, pools)?));
        draft.put(run.clone());
    }
    Ok(Recorded::Asked(answers))
}

/// Releases a run from its worker.
fn release(draft: &mut Draft, mut run: Run, then: Then) -> Decided<()> {
    match then {
        Then::Continue | Then::Yield if run.pausing => park(draft, run, true)?,
        Then::Suspend(waits) => {
            run.made_progress();
            suspend(draft, run, waits)?;
        }
        Then::Complete(output) => {
            let ending = match session::settle(draft, &run)? {
                Ok(()) => Ending::Completed { output },
                Err(error) => Ending::Failed { error },
            };
            end(draft, run, ending)?;
        }
        Then::Fail(error) => end(draft, run, Ending::Failed { error })?,
        Then::Continue | Then::Stay | Then::Yield => {
            run.owner = None;
            run.phase = Phase::Ready;
            draft.put(run);
        }
    }
    Ok(())
}

/// Records a step if it is not recorded yet. A worker repeats a report if it got no answer. Returns
/// whether the step is new.
fn remember(
    draft: &mut Draft,
    report: &Record,
    id: String,
    kind: StepKind,
    result: impl FnOnce(&mut Draft) -> Decided<Result<Payload, RunError>>,
) -> Decided<bool> {
    let known = draft.row::<Refusal>(&RowKey::Step(report.run, id.clone()))?.is_some();
    if !known {
        let result = result(draft)?;
        let (run, fence, at, seq) = (report.run, report.fence, draft.now(), draft.next_seq()?);
        draft.put(Step { run, id, kind, fence, at, result, seq });
        count(draft, report, kind)?;
    }
    Ok(!known)
}

/// Sends the message of a step. If the receiving run has ended or does not exist, or there is
/// nothing to settle, the step fails, but not the report.
fn send(
    draft: &mut Draft,
    ws: &Workspace,
    from: Seq,
    what: &Sent,
) -> Decided<Result<Payload, RunError>> {
    match what {
        Sent::Event(event) => match event::post(draft, ws, event) {
            Err(Stop::Refused(refusal @ Refusal::TooFarAhead { .. })) => {
                Ok(Err(RunError::of(refusal.code(), refusal.to_string())))
            }
            posted => posted.map(|posted| Ok(Payload::from_value(&posted.to_value()))),
        },
        Sent::Signal { run, name, data } => match control::signal(draft, ws, *run, name, data) {
            Err(Stop::Refused(refusal)) => {
                let (code, message) = (refusal.code().to_owned(), refusal.to_string());
                Ok(Err(RunError::new(code, message)))
            }
            sent => sent.map(|()| Ok(Payload::null())),
        },
        Sent::Settle { pool, actual } => settle::settle(draft, from, pool, *actual),
    }
}

/// Commits to a stream and records the step. After a conflict it does neither. Returns whether the
/// step is new.
fn append(draft: &mut Draft, report: &Record, asked: &NewCommit) -> Decided<bool> {
    let NewCommit { step, commit } = asked;
    let known = draft.row::<Refusal>(&RowKey::Step(report.run, step.clone()))?.is_some();
    if known {
        return Ok(false);
    }
    let catalog = draft.catalog(&commit.ws)?;
    let result =
        match draft.keep_or_undo(|draft| stream::commit(draft, commit, catalog.followers())) {
            Ok(committed) => Ok(Payload::from_value(&committed.to_value())),
            Err(Stop::Refused(StreamRefusal::Conflict { .. })) => return Ok(false),
            Err(Stop::Refused(refusal)) => Err(RunError::of(refusal.code(), refusal.to_string())),
            Err(Stop::Need(reads)) => return Err(Stop::Need(reads)),
            Err(Stop::Full) => return Err(Stop::Full),
        };
    remember(draft, report, step.clone(), StepKind::Commit, |_| Ok(result))
}

/// Counts a compensation at once, with its record, because an event in the same report may replace
/// the run.
fn count(draft: &mut Draft, report: &Record, kind: StepKind) -> Decided<()> {
    if kind == StepKind::Compensate {
        let mut run = leased(draft, report)?;
        run.compensations += 1;
        draft.put(run);
    }
    Ok(())
}

/// Confirms that a worker has stopped driving a cancelled run.
pub fn stopped(draft: &mut Draft, run: Seq, engine: EngineId, fence: i64) -> Decided<()> {
    match draft.run(run)?.cloned() {
        Some(run)
            if run.phase == Phase::Stopping && run.owner == Some(engine) && run.fence == fence =>
        {
            end::stopped(draft, run)
        }
        _ => Ok(()),
    }
}

/// Returns the run, if the report's lease is still valid.
fn leased(draft: &Draft, report: &Record) -> Decided<Run> {
    let fenced = || Stop::Refused(Refusal::Fenced { run: report.run, fence: report.fence });
    let run = draft.run(report.run)?.ok_or_else(fenced)?;
    let good =
        run.phase == Phase::Driven && run.owner == Some(report.engine) && run.fence == report.fence;
    if good { Ok(run.clone()) } else { Err(fenced()) }
}

/// Child that a step calls.
struct NewChild {
    step: String,
    until: Option<Until>,
    app: String,
    workflow: String,
    data: Payload,
}

/// Result of registering waits.
#[derive(Default)]
struct Registered {
    /// Whether one of them has ended already.
    answered: bool,
    /// Children that have to be started.
    children: Vec<NewChild>,
    /// Steps that ask for their pools.
    asks: Vec<(String, Vec<PoolAsk>)>,
}

/// Registers the waits of a run that have neither a wait nor a result yet.
fn register(draft: &mut Draft, run: &mut Run, waits: Vec<NewWait>) -> Decided<Registered> {
    let Registered { mut answered, mut children, mut asks } = Registered::default();
    let since = draft.next_seq()?;
    let now = draft.now();
    for NewWait { step, on, until } in waits {
        if wait::is_answered(draft, run, &step)? {
            answered = true;
            continue;
        }
        if let NewWaitOn::Retry { attempt } | NewWaitOn::Deferred { attempt } = on {
            count_attempt(run, &step, attempt, matches!(on, NewWaitOn::Deferred { .. }));
        }
        let waits = run.waits.iter().map(|wait| &wait.step);
        if waits.chain(children.iter().map(|child| &child.step)).any(|known| *known == step) {
            continue;
        }
        let on = match on {
            NewWaitOn::Time => WaitOn::Time,
            NewWaitOn::Retry { .. } | NewWaitOn::Deferred { .. } => WaitOn::Retry,
            NewWaitOn::Pools(pools) => {
                asks.push((step, pools));
                continue;
            }
            // The wait has ended in some way: the handler finds out how.
            NewWaitOn::Registered => {
                answered = true;
                continue;
            }
            NewWaitOn::Event { name, matches, filter, whole } => {
                WaitOn::Event { name, matches, filter, whole }
            }
            NewWaitOn::Named { name, replace } => {
                let known = run.answered.len();
                if !named::claim(draft, run, &step, &name, replace)? {
                    answered = true;
                    continue;
                }
                // The step whose place it takes may be one of this run.
                answered |= run.answered.len() > known;
                WaitOn::Named { name }
            }
            NewWaitOn::Signal { name } => WaitOn::Signal { name },
            NewWaitOn::Invoke { app, workflow, data } => {
                children.push(NewChild { step, until, app, workflow, data });
                continue;
            }
        };
        let (until, within_ms) = (until.map(|it| it.moment(now)), until.and_then(Until::span));
        let wait = Wait { step, on, until, within_ms, pool: None, since };
        answered |= wait::register(draft, run, wait)?;
    }
    Ok(Registered { answered, children, asks })
}

/// Counts an attempt that ended without a record, unless it is counted, and removes the wait after
/// the attempt before it.
fn count_attempt(run: &mut Run, step: &str, attempt: u32, is_deferral: bool) {
    let count = |attempts: &BTreeMap<String, u32>| attempts.get(step).copied().unwrap_or_default();
    if attempt <= count(&run.failures) + count(&run.deferrals) {
        return;
    }
    let attempts = if is_deferral { &mut run.deferrals } else { &mut run.failures };
    *attempts.entry(step.to_owned()).or_default() += 1;
    run.waits.retain(|wait| wait.step != step || wait.on != WaitOn::Retry);
}

/// Registers the waits of a report while the run is driven. Children start at once.
fn begin_waits(draft: &mut Draft, mut run: Run, report: &Record) -> Decided<Run> {
    if report.waits.is_empty() {
        return Ok(run);
    }
    let children = register(draft, &mut run, report.waits.clone())?.children;
    draft.put(run);
    for child in children {
        invoke(draft, report.run, child)?;
    }
    let mut run = leased(draft, report)?;
    // The handler learns of waits that have ended at once as it does of those that end later.
    for NewWait { step, .. } in &report.waits {
        if wait::is_answered(draft, &run, step)? && !run.answered.contains(step) {
            run.answered.push(step.clone());
        }
    }
    Ok(run)
}

fn suspend(draft: &mut Draft, mut run: Run, waits: Vec<NewWait>) -> Decided<()> {
    let unasked = !run.answered.is_empty() && waits.is_empty();
    let Registered { answered, children, asks } = register(draft, &mut run, waits)?;
    let mut answered = answered || unasked;
    // The parent releases its executing gates first, because its child may need them.
    let id = run.id.seq;
    // A run that has something to do, or is to be paused, asks again when it goes on.
    let going = answered || (run.pausing && !asks.is_empty());
    match if going { None } else { for_pools(draft, &mut run, asks, &mut answered)? } {
        Some((step, needs)) => {
            run.owner = None;
            step_pool::park(draft, run, step, &needs)?;
        }
        None => park(draft, run, going || answered)?,
    }
    for child in children {
        invoke(draft, id, child)?;
    }
    Ok(())
}

/// Returns the step for which a run queues, with its gates. Steps before it for which a rate limit
/// has no token wait for that. Sets `going` if a step would be refused: it has to ask again.
fn for_pools(
    draft: &mut Draft,
    run: &mut Run,
    asks: Vec<(String, Vec<PoolAsk>)>,
    going: &mut bool,
) -> Decided<Option<(String, step_pool::Needs)>> {
    for (step, pools) in asks {
        match step_pool::request(draft, run, &step, &pools)? {
            Request::Queue(needs) => return Ok(Some((step, needs))),
            Request::Later(pool, at) => {
                let wait = step_pool::wait_for_token(draft, step, pool, at)?;
                run.waits.push(wait);
            }
            Request::Again => *going = true,
        }
    }
    Ok(None)
}

/// Suspends a run and releases its executing gates. If `going`, the run has something to do and is
/// queued again, unless a pause was requested.
fn park(draft: &mut Draft, mut run: Run, going: bool) -> Decided<()> {
    run.owner = None;
    if going && !run.pausing {
        return gate::requeue(draft, run);
    }
    let keep = run.executing();
    gate::release(draft, &mut run, keep)?;
    if run.pausing {
        (run.phase, run.pausing) = (Phase::Paused, going);
    } else {
        run.phase = Phase::Waiting;
    }
    draft.put(run);
    Ok(())
}

/// Starts a child and adds a wait for it. If the child is refused, the step fails at once.
fn invoke(draft: &mut Draft, parent: Seq, child: NewChild) -> Decided<()> {
    let NewChild { step, until, app, workflow, data } = child;
    let mut run = draft.run(parent)?.cloned().expect("the parent has just reported");
    let id = draft.new_event_id()?;
    let (ws, name) = (run.ws.clone(), workflow.clone());
    let (at, kind) = (draft.now(), Kind::Invoke);
    let (ts, delivery, attributes) = (None, None, None);
    let event = &Event { id, ws: ws.clone(), kind, name, at, ts, data, delivery, attributes };
    draft.put(event.clone());
    let catalog = draft.catalog(&ws)?;
    let current = catalog.entry(&app, &workflow).and_then(Entry::open);
    let Some(current) = current else {
        let message = format!(
            "workflow `{workflow}` of app `{app}` takes no new runs: it is unknown, retired, or has no \
             released version"
        );
        return answer_at_once(draft, run, step, RunError::new("UnknownWorkflow", message));
    };
    let mut ancestors =
        run.parent.as_ref().map(|parent| parent.ancestors.clone()).unwrap_or_default();
    ancestors.push(parent);
    let parent = Some(Parent { run: parent, step: step.clone(), ancestors });
    let (origin, function_key, batch) = (Origin::Invoke, None, None);
    let (pools, results) = (pool::of(draft, &ws, &current.workflow)?, Results::default());
    let candidate =
        Candidate { ws, current, event, origin, parent, function_key, batch, pools, results };
    match draft.keep_or_undo(|draft| admit(draft, &candidate)) {
        Ok(verdict) => {
            receipts::write(draft, &candidate, &verdict)?;
            let Some(child) = verdict.run() else { return Ok(()) };
            let (on, since) = (WaitOn::Child { run: child }, run.id.seq);
            let (until, within_ms) = (until.map(|it| it.moment(at)), until.and_then(Until::span));
            run = draft.run(run.id.seq)?.cloned().expect("a child does not end its parent");
            run.waits.push(Wait { step, on, until, within_ms, pool: None, since });
            draft.put(run);
            Ok(())
        }
        Err(Stop::Refused(verdict)) => {
            receipts::write(draft, &candidate, &verdict)?;
            let fault = refused(&verdict);
            answer_at_once(draft, run, step, fault)
        }
        Err(Stop::Need(reads)) => Err(Stop::Need(reads)),
        Err(Stop::Full) => Err(Stop::Full),
    }
}

fn answer_at_once(draft: &mut Draft, mut run: Run, step: String, fault: RunError) -> Decided<()> {
    let (fence, at) = (run.fence, draft.now());
    let (kind, result, seq) = (StepKind::Invoke, Err(fault), draft.next_seq()?);
    draft.put(Step { run: run.id.seq, id: step, kind, fence, at, result, seq });
    match run.phase {
        Phase::Waiting => wait::wake(draft, run),
        Phase::Paused => {
            run.pausing = true;
            draft.put(run);
            Ok(())
        }
        Phase::Queued { .. } | Phase::Ready | Phase::Driven | Phase::Stopping => Ok(()),
    }
}

/// Returns the error of a parent's step if a control has refused its child (spec A5, G8).
fn refused(verdict: &Verdict) -> RunError {
    let ancestor = matches!(verdict, Verdict::HeldByAncestor { .. });
    let full = matches!(verdict, Verdict::QueueFull { .. });
    let code = if full { "QueueFull" } else { "Refused" };
    let code = if ancestor { "HeldByAncestor" } else { code };
    RunError::new(code.to_owned(), verdict.to_value().to_string())
}
