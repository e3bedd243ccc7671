//! Commands and their answers.
//!
//! A command is data: it can be kept, sent again with the same ids, probed for the rows that it
//! will read, and decided on a draft together with others.

mod refusal;
mod stream;
mod workers;

use std::{collections::BTreeMap, sync::Arc};

pub use refusal::Refusal;
pub use stream::{StreamAnswer, StreamCommand};

use crate::{
    access::AccessCommand,
    catalog::Catalog,
    definition::Definition,
    draft::{Decided, Draft, Stop},
    event::{self, NewEvent, Outcome, Posted},
    id::{ChoreId, RunId, Seq},
    idempotency_key::{self, IdempotentRequest},
    json::Payload,
    key::Key,
    reads::{Change, Latch, Mode, ReadSet, Snapshot},
    request::{self, Request},
    retention::{self, Forgotten, Past},
    row::{
        BulkFilter, BulkWhat, Chore, EngineId, GateKey, Row, Run, SessionOp, SessionRef, Workspace,
    },
    run::{
        chore, control, lease,
        record::{self, NewWaitOn, Record, Recorded, Sent, Then},
        replay::{self, ReplayRequest},
        sweep,
    },
    schedule::{self, Hold, Missed, Occurrence},
    session,
    time::Timestamp,
    turn::{Claim, Lanes},
    version::{self, Registered, Released, Retired},
};

/// Command, decided in one transaction with others.
#[derive(Clone, Debug)]
pub enum Command {
    /// Posts events, all or none.
    Post {
        /// The workspace.
        ws: Workspace,
        /// The events, in order.
        events: Vec<NewEvent>,
    },
    /// Starts one workflow by its name, whatever its triggers are.
    Start {
        /// The workspace.
        ws: Workspace,
        /// The workflow's app.
        app: String,
        /// The workflow.
        workflow: String,
        /// The input.
        input: Payload,
    },
    /// Calls an action.
    Dispatch {
        /// The workspace.
        ws: Workspace,
        /// The call.
        request: Request,
    },
    /// Calls two actions: the second starts when the first has completed.
    DispatchThen {
        /// The workspace.
        ws: Workspace,
        /// The first call.
        first: Box<Request>,
        /// The second.
        then: Box<Request>,
    },
    /// Starts a planned occurrence of a schedule, once over all engines.
    Occur {
        /// The occurrence, and its successor.
        occurrence: Occurrence,
    },
    /// Leases ready runs.
    Lease {
        /// The leasing engine.
        engine: EngineId,
        /// The claims, by workspace, in the order of their turns; each with its maximum of runs.
        claims: Vec<(Claim, u32)>,
        /// The lanes whose runs the engine can drive: other lanes may be registered within a range.
        serves: Lanes,
        /// The maximum number of runs in total.
        limit: u32,
    },
    /// Reports on a leased run.
    Record {
        /// The run as its worker knows it: a hint of the rows that the report will touch.
        known: Box<Run>,
        /// The report.
        report: Record,
    },
    /// Confirms that a cancelled run is no longer driven.
    Stopped {
        /// The run as its worker knows it.
        known: Box<Run>,
    },
    /// Cancels a run.
    Cancel {
        /// The workspace.
        ws: Workspace,
        /// The run.
        run: RunId,
        /// The reason.
        reason: String,
    },
    /// Pauses a run.
    Pause {
        /// The workspace.
        ws: Workspace,
        /// The run.
        run: RunId,
    },
    /// Resumes a paused run.
    Resume {
        /// The workspace.
        ws: Workspace,
        /// The run.
        run: RunId,
    },
    /// Sends a signal to a run.
    Signal {
        /// The workspace.
        ws: Workspace,
        /// The run.
        run: RunId,
        /// The signal's name.
        name: String,
        /// The payload.
        data: Payload,
    },
    /// Creates a new run from one that has ended.
    Replay {
        /// The workspace.
        ws: Workspace,
        /// The run.
        run: RunId,
        /// Another input; the same one unless given.
        input: Option<Payload>,
        /// The first step that is not kept: the steps recorded before it are.
        from_step: Option<String>,
        /// The result of the program's key function for the input, where the policy has one.
        function_key: Option<Key>,
    },
    /// Processes a gate that is due.
    SweepGate {
        /// The workspace.
        ws: Workspace,
        /// The gate.
        gate: GateKey,
    },
    /// Processes a run that is due.
    SweepRun {
        /// The workspace.
        ws: Workspace,
        /// The run.
        run: Seq,
    },
    /// Applies one action to many runs, in chunks, after its own transaction.
    Bulk {
        /// The workspace.
        ws: Workspace,
        /// The action.
        what: BulkWhat,
        /// The filter.
        filter: BulkFilter,
    },
    /// Does the next chunk of a chore that is due.
    SweepChore {
        /// The chore as the scan found it.
        known: Box<Chore>,
    },
    /// Declares an engine dead, if its heartbeat has not changed.
    MarkDead {
        /// The engine.
        engine: EngineId,
        /// The heartbeat that was seen a lease ago.
        beat: i64,
    },
    /// Takes a run from a dead engine.
    Reap {
        /// The run as the scan found it.
        known: Box<Run>,
        /// The engine.
        engine: EngineId,
        /// Consecutive deaths with the handler running that pause a run; 0 pauses none.
        max_deaths: u32,
    },
    /// Registers a version.
    Register {
        /// The workspace.
        ws: Workspace,
        /// The definition.
        workflow: Box<Definition>,
        /// Whether a version's definition may change under its number.
        dev: bool,
    },
    /// Releases a version.
    Release {
        /// The workspace.
        ws: Workspace,
        /// The app.
        app: String,
        /// The workflow.
        name: String,
        /// The version.
        version: u32,
    },
    /// Retires a workflow: it is never started again.
    Retire {
        /// The workspace.
        ws: Workspace,
        /// The app.
        app: String,
        /// The workflow.
        name: String,
    },
    /// Reads or changes the state of a session from outside any run.
    Session {
        /// The workspace.
        ws: Workspace,
        /// The session.
        session: SessionRef,
        /// The operation.
        op: SessionOp,
        /// The version that the document must have; none means any.
        expected_version: Option<i64>,
    },
    /// A command on streams.
    Stream {
        /// The workspace.
        ws: Workspace,
        /// The command.
        command: StreamCommand,
    },
    /// Replaces the list of versions that an engine takes runs of.
    Serve {
        /// The engine; it has sent a heartbeat before.
        engine: EngineId,
        /// The lanes of those versions, in all workspaces.
        lanes: Vec<Seq>,
    },
    /// Plans the first occurrence of a schedule of the current release, if it has no row yet.
    Plan {
        /// The workspace.
        ws: Workspace,
        /// The workflow's app.
        app: String,
        /// The workflow.
        workflow: String,
        /// The schedule.
        schedule: String,
        /// The time of its first occurrence.
        next: Timestamp,
    },
    /// Skips an occurrence that is too late, and all others before its given successor.
    Miss {
        /// The occurrence, and the first one that is not missed.
        occurrence: Occurrence,
        /// The number of missed occurrences.
        missed: Missed,
    },
    /// Pauses or resumes a schedule of the current release.
    HoldSchedule {
        /// The workspace.
        ws: Workspace,
        /// The workflow's app.
        app: String,
        /// The workflow.
        workflow: String,
        /// The schedule.
        schedule: String,
        /// Pause or resume.
        hold: Hold,
    },
    /// Deletes a chunk of ended and expired rows.
    Forget {
        /// The kind of rows.
        past: Past,
        /// Rows that ended before this time are deleted.
        before: Timestamp,
        /// The cursor of the pass: the last number seen.
        after: Seq,
        /// The maximum number of rows to examine.
        most: u32,
    },
    /// Deletes a dead engine that owns no runs.
    Bury {
        /// The engine.
        engine: EngineId,
    },
    /// Decides a command under an idempotency key: only the first request takes effect.
    Once {
        /// The request.
        asked: IdempotentRequest,
        /// The request's command.
        command: Box<Command>,
    },
    /// Stores the response to a request with an idempotency key.
    Keep {
        /// The request.
        asked: IdempotentRequest,
        /// The response.
        response: Payload,
        /// Whether the response contains the result of the request's effect.
        done: bool,
    },
    /// A command on API keys.
    Access {
        /// The command.
        command: AccessCommand,
    },
}

/// Answer to a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To [`Command::Post`], event by event.
    Posted(Vec<Posted>),
    /// To [`Command::Start`], [`Command::Dispatch`], [`Command::Occur`] and [`Command::Replay`].
    Admitted(Outcome),
    /// To [`Command::DispatchThen`]: the second is absent where the first was refused.
    AdmittedBoth(Outcome, Option<Box<Outcome>>),
    /// To [`Command::Lease`].
    Leased(Vec<Run>),
    /// To [`Command::Record`].
    Recorded(Recorded),
    /// To [`Command::MarkDead`], [`Command::Reap`], [`Command::Bury`], [`Command::Plan`],
    /// [`Command::HoldSchedule`] and [`Command::Miss`]: whether it took place. To
    /// [`Command::Occur`], always `false`: another engine started it, or the schedule is gone.
    Changed(bool),
    /// To [`Command::Reap`] of a run that was paused instead of continued.
    Paused {
        /// The reason.
        reason: String,
    },
    /// To [`Command::Register`].
    Registered(Registered),
    /// To [`Command::Forget`].
    Forgotten(Forgotten),
    /// To [`Command::Release`].
    Released(Released),
    /// To [`Command::Retire`].
    Retired(Retired),
    /// To [`Command::Session`].
    Session(session::Outcome),
    /// To [`Command::Stream`].
    Stream(StreamAnswer),
    /// To [`Command::Bulk`]: the chore whose progress can be read.
    Left(ChoreId),
    /// To a repeated [`Command::Once`]: the answer of the first one.
    Again(Box<Answer>),
    /// To [`Command::Keep`]: the response to send, which is the one that was stored first.
    Kept(Payload),
    /// To all others.
    Done,
}

impl Command {
    /// Returns the reads besides rows: definitions and latches.
    fn reads(&self) -> ReadSet {
        let none = ReadSet::default();
        let topic = |ws: &Workspace, name: &str| Latch::Topic(ws.clone(), name.to_owned());
        match self {
            Self::Post { ws, events } => events.iter().fold(none.catalog(ws), |reads, event| {
                reads.latch(topic(ws, &event.name), Mode::Shared)
            }),
            Self::Record { known, report } => {
                let waits = match &report.then {
                    Then::Suspend(waits) => waits.as_slice(),
                    Then::Continue | Then::Complete(_) | Then::Fail(_) | Then::Yield => &[],
                };
                let none = none.catalog(&known.ws);
                let sends = report.sends.iter().fold(none, |reads, send| match &send.what {
                    Sent::Event(event) => reads.latch(topic(&known.ws, &event.name), Mode::Shared),
                    Sent::Signal { .. } => reads,
                });
                waits.iter().fold(sends, |reads, wait| match &wait.on {
                    NewWaitOn::Event { name, .. } => {
                        reads.latch(topic(&known.ws, name), Mode::Exclusive)
                    }
                    NewWaitOn::Time
                    | NewWaitOn::Retry
                    | NewWaitOn::Signal { .. }
                    | NewWaitOn::Invoke { .. } => reads,
                })
            }
            Self::Stopped { known } | Self::Reap { known, .. } => none.catalog(&known.ws),
            Self::Start { ws, .. }
            | Self::Dispatch { ws, .. }
            | Self::DispatchThen { ws, .. }
            | Self::Cancel { ws, .. }
            | Self::Pause { ws, .. }
            | Self::Resume { ws, .. }
            | Self::Signal { ws, .. }
            | Self::Plan { ws, .. }
            | Self::HoldSchedule { ws, .. }
            | Self::SweepGate { ws, .. }
            | Self::SweepRun { ws, .. }
            | Self::Bulk { ws, .. } => none.catalog(ws),
            Self::Lease { claims, .. } => {
                claims.iter().fold(none, |reads, (claim, _)| reads.catalog(&claim.ws))
            }
            Self::SweepChore { known } => none.catalog(&known.ws),
            Self::Occur { occurrence } | Self::Miss { occurrence, .. } => {
                none.catalog(&occurrence.ws)
            }
            Self::Replay { ws, .. } => none.catalog(ws).latch(retention::latch(), Mode::Shared),
            Self::Forget { .. } => retention::reads(),
            Self::MarkDead { .. }
            | Self::Serve { .. }
            | Self::Bury { .. }
            | Self::Keep { .. }
            | Self::Access { .. }
            | Self::Session { .. } => none,
            Self::Once { command, .. } => command.reads(),
            Self::Stream { ws, command } => command.reads(ws),
            Self::Register { ws, .. } | Self::Release { ws, .. } | Self::Retire { ws, .. } => {
                none.catalog(ws).latch(Latch::Definitions(ws.clone()), Mode::Exclusive)
            }
        }
    }

    /// Returns the run or the chore that the caller passed along.
    fn known(&self) -> Option<Row> {
        if let Self::SweepChore { known } = self {
            return Some(Row::from(Chore::clone(known)));
        }
        if let Self::Record { known, .. } | Self::Stopped { known } | Self::Reap { known, .. } =
            self
        {
            return Some(Row::from(Run::clone(known)));
        }
        None
    }

    /// Returns the reads of a plain report, which needs no probe.
    fn plain_reads(&self) -> Option<ReadSet> {
        let Self::Record { known, report } = self else { return None };
        report.plain_reads(known)
    }

    /// Decides the command on a draft.
    #[expect(clippy::too_many_lines, reason = "a table: where each command is decided")]
    fn decide(&self, draft: &mut Draft) -> Decided<Answer> {
        match self {
            Self::Post { ws, events } => {
                let posted = events.iter().map(|event| event::post(draft, ws, event));
                Ok(Answer::Posted(posted.collect::<Decided<_>>()?))
            }
            Self::Start { ws, app, workflow, input } => {
                request::start_workflow(draft, ws, app, workflow, input).map(Answer::Admitted)
            }
            Self::Dispatch { ws, request } => {
                request::dispatch(draft, ws, request).map(Answer::Admitted)
            }
            Self::DispatchThen { ws, first, then } => {
                let (first, then) = request::dispatch_then(draft, ws, first, then)?;
                Ok(Answer::AdmittedBoth(first, then.map(Box::new)))
            }
            Self::Occur { occurrence } => {
                let outcome = schedule::occur(draft, occurrence)?;
                Ok(outcome.map_or(Answer::Changed(false), Answer::Admitted))
            }
            Self::Lease { engine, claims, serves, limit } => {
                lease::lease(draft, *engine, claims, serves, *limit).map(Answer::Leased)
            }
            Self::Record { report, .. } => record::record(draft, report).map(Answer::Recorded),
            Self::Stopped { known } => {
                let engine = known.owner.unwrap_or_default();
                done(record::stopped(draft, known.id.seq, engine, known.fence))
            }
            Self::Cancel { ws, run, reason } => done(control::cancel(draft, ws, *run, reason)),
            Self::Pause { ws, run } => done(control::pause(draft, ws, *run)),
            Self::Resume { ws, run } => done(control::resume(draft, ws, *run)),
            Self::Signal { ws, run, name, data } => {
                done(control::signal(draft, ws, *run, name, data))
            }
            Self::Replay { ws, run, input, from_step, function_key } => {
                let go = ReplayRequest { input, from_step, function_key };
                replay::replay(draft, ws, *run, go).map(Answer::Admitted)
            }
            Self::SweepGate { gate, .. } => done(sweep::gate(draft, gate)),
            Self::SweepRun { run, .. } => done(sweep::run(draft, *run)),
            Self::Bulk { ws, what, filter } => {
                chore::bulk(draft, ws, what, filter).map(Answer::Left)
            }
            Self::SweepChore { known } => done(chore::sweep(draft, known.id.seq)),
            Self::MarkDead { engine, beat } => {
                sweep::mark_dead(draft, *engine, *beat).map(Answer::Changed)
            }
            Self::Reap { known, engine, max_deaths } => {
                sweep::reap(draft, known.id.seq, *engine, *max_deaths)
            }
            Self::Register { ws, workflow, dev } => {
                version::register(draft, ws, workflow, *dev).map(Answer::Registered)
            }
            Self::Session { ws, session, op, expected_version } => {
                session::outside(draft, ws, session, op, *expected_version).map(Answer::Session)
            }
            Self::Stream { ws, command } => command.decide(draft, ws).map(Answer::Stream),
            Self::Release { ws, app, name, version } => {
                version::release(draft, ws, app, name, *version).map(Answer::Released)
            }
            Self::Retire { ws, app, name } => {
                version::retire(draft, ws, app, name).map(Answer::Retired)
            }
            Self::Serve { engine, lanes } => done(lease::serve(draft, *engine, lanes)),
            Self::Plan { ws, app, workflow, schedule, next } => {
                schedule::plan(draft, ws, app, workflow, schedule, *next).map(Answer::Changed)
            }
            Self::Miss { occurrence, missed } => {
                schedule::miss(draft, occurrence, *missed).map(Answer::Changed)
            }
            Self::HoldSchedule { ws, app, workflow, schedule, hold } => {
                schedule::hold(draft, ws, app, workflow, schedule, *hold).map(Answer::Changed)
            }
            Self::Forget { past, before, after, most } => {
                retention::forget(draft, *past, *before, *after, *most).map(Answer::Forgotten)
            }
            Self::Bury { engine } => sweep::bury(draft, *engine).map(Answer::Changed),
            Self::Once { asked, command } => {
                idempotency_key::once(draft, asked, |draft| command.decide(draft))
            }
            Self::Keep { asked, response, done } => {
                idempotency_key::keep(draft, asked, response, *done).map(Answer::Kept)
            }
            Self::Access { command } => command.decide(draft).map(Answer::Changed),
        }
    }
}

fn done(decided: Decided<()>) -> Decided<Answer> {
    decided.map(|()| Answer::Done)
}

/// Predicts the reads of the commands by deciding them once on the rows that are known.
///
/// The prediction may be incomplete: a decision asks for missing rows. It is never wrong.
pub fn probe(
    commands: &[(Command, u64)],
    catalogs: &BTreeMap<Workspace, Arc<Catalog>>,
    now: Timestamp,
) -> ReadSet {
    let mut reads = ReadSet::default();
    let mut tried = Vec::new();
    for (command, salt) in commands {
        reads.merge(command.reads());
        match command.plain_reads() {
            Some(plain) => reads.merge(plain),
            None => tried.push((command, *salt)),
        }
    }
    let known = tried.iter().filter_map(|(command, _)| command.known());
    let rows: BTreeMap<_, _> = known.map(|row| (row.key(), Some(row))).collect();
    reads.rows.extend(rows.keys().cloned());
    let base = Snapshot { now, rows, catalogs: catalogs.clone(), ..Snapshot::default() };
    reads.merge(missing(tried, base).0);
    reads
}

/// Returns the next reads of the commands, taking all rows outside the snapshot as absent.
fn missing<'a>(
    commands: impl IntoIterator<Item = (&'a Command, u64)>,
    base: Snapshot,
) -> (ReadSet, Snapshot) {
    let mut draft = Draft::probing(base);
    for (command, salt) in commands {
        // Only the reads are of interest here, not the answer.
        let _ = draft.attempt(salt, |draft| command.decide(draft));
    }
    draft.into_probed()
}

/// Result of deciding a batch.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for a transaction")]
pub enum Batch {
    /// The changes, and an answer for each command; `None` for a command that did not fit into the
    /// transaction and goes into the next one.
    Decided(Vec<Change>, Vec<Option<Result<Answer, Refusal>>>),
    /// More rows are needed; nothing is decided.
    Need(ReadSet, Snapshot),
}

/// Decides commands one after another, each on the changes of those before it.
pub fn decide(commands: &[(Command, u64)], snapshot: Snapshot) -> Batch {
    let mut draft = Draft::new(snapshot);
    let mut answers = Vec::with_capacity(commands.len());
    let mut needed = ReadSet::default();
    let mut full = false;
    for (command, salt) in commands {
        if full {
            answers.push(None);
            continue;
        }
        match draft.attempt(*salt, |draft| command.decide(draft)) {
            Ok(answer) => answers.push(Some(Ok(answer))),
            Err(Stop::Refused(refusal)) => answers.push(Some(Err(refusal))),
            Err(Stop::Need(reads)) => {
                needed.merge(*reads);
                needed.merge(command.reads());
                answers.push(None);
            }
            Err(Stop::Full) => {
                full = true;
                answers.push(None);
            }
        }
    }
    if needed.is_empty() {
        return Batch::Decided(draft.changes(), answers);
    }
    // A decision stops at the first missing row; with many gates on its way it would ask once for
    // each.
    let commands = commands.iter().map(|(command, salt)| (command, *salt));
    let (more, base) = missing(commands, draft.into_base());
    needed.merge(more);
    Batch::Need(needed, base)
}
