//! Commands and their answers.
//!
//! A command is plain data. It can be stored, sent again with the same ids, probed for the rows
//! that it will read, and decided on a draft together with other commands.

mod refusal;
mod stream;
mod workers;

use std::{collections::BTreeMap, sync::Arc};

pub use refusal::Refusal;
pub use stream::{StreamAnswer, StreamCommand};

use crate::{
    access::AccessCommand,
    audit::{self, AuditEntry, Author},
    catalog::Catalog,
    definition::Definition,
    delivery::{self, CancelledDelivery},
    draft::{Decided, Draft, Stop},
    event::{self, NewEvent, Outcome, Posted},
    expected::Expected,
    id::{ChoreId, EventId, RunId, Seq},
    idempotency_key::{self, IdempotentRequest},
    json::Payload,
    key::Key,
    overrides::{self, Overridden, OverrideChange, Purged, Target},
    pool::PoolCommand,
    reads::{Change, Latch, Mode, ReadSet, Snapshot},
    request::{self, Request},
    retention::{self, Forgotten, Past},
    row::{
        BulkFilter, BulkWhat, Chore, EngineId, GateKey, Row, Run, SessionOp, SessionRef, Work,
        Workspace,
    },
    run::{
        chore, control, lease, named,
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

/// Command. Several commands are decided in one transaction.
#[derive(Clone, Debug)]
pub enum Command {
    /// Posts events: either all of them or none.
    Post {
        /// The workspace.
        ws: Workspace,
        /// The events, in order.
        events: Vec<NewEvent>,
    },
    /// Starts one workflow by its name. Its triggers do not matter.
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
        /// The second call.
        then: Box<Request>,
    },
    /// Starts a planned occurrence of a schedule. It starts once, also if several engines try.
    Occur {
        /// The occurrence, with the time of the next one.
        occurrence: Occurrence,
    },
    /// Leases ready runs.
    Lease {
        /// The leasing engine.
        engine: EngineId,
        /// The claims, by workspace, in the order of their turns; each with a maximum number of
        /// runs.
        claims: Vec<(Claim, u32)>,
        /// The lanes whose runs the engine can drive. A claim is a range of lanes, which may
        /// contain lanes of other engines.
        serves: Lanes,
        /// The maximum number of runs in total.
        limit: u32,
    },
    /// Reports on a leased run.
    Record {
        /// The run as its worker last read it: a hint which rows the report will change.
        known: Box<Run>,
        /// The report.
        report: Record,
    },
    /// Confirms that the worker of a cancelled run has stopped.
    Stopped {
        /// The run as its worker last read it.
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
    /// Sends a signal to the run that waits for its name.
    SignalByName {
        /// The workspace.
        ws: Workspace,
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
        /// The input of the new run; none means the input of the ended run.
        input: Option<Payload>,
        /// The first step to execute again: the new run keeps the steps recorded before it. None
        /// means that it keeps no step.
        from_step: Option<String>,
        /// The result of the policy's key function for the input, if the policy has one.
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
    /// Creates a chore that applies one action to many runs, in chunks, in later transactions.
    Bulk {
        /// The workspace.
        ws: Workspace,
        /// The action.
        what: BulkWhat,
        /// The filter.
        filter: BulkFilter,
    },
    /// Processes the next chunk of a chore that is due.
    SweepChore {
        /// The chore as the scan found it.
        known: Box<Chore>,
    },
    /// Declares an engine dead, if it has sent no heartbeat since `beat`.
    MarkDead {
        /// The engine.
        engine: EngineId,
        /// The number of the heartbeat that was read one lease duration ago.
        beat: i64,
    },
    /// Takes a run from a dead engine.
    Reap {
        /// The run as the scan found it.
        known: Box<Run>,
        /// The engine.
        engine: EngineId,
        /// A run is paused if this many engines in succession have died while they drove it; 0
        /// pauses no run.
        max_deaths: u32,
    },
    /// Registers a version.
    Register {
        /// The workspace.
        ws: Workspace,
        /// The definition.
        workflow: Box<Definition>,
        /// Whether the definition may change without a new version number.
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
    /// Retires a workflow: it gets no new runs until a version is registered or released again.
    Retire {
        /// The workspace.
        ws: Workspace,
        /// The app.
        app: String,
        /// The workflow.
        name: String,
    },
    /// Reads or changes the state of a session on behalf of a caller that is not a run.
    Session {
        /// The workspace.
        ws: Workspace,
        /// The session.
        session: SessionRef,
        /// The operation.
        op: SessionOp,
        /// The version that the session's state must have; none means any version.
        expected_version: Option<i64>,
    },
    /// A command on streams.
    Stream {
        /// The workspace.
        ws: Workspace,
        /// The command.
        command: StreamCommand,
    },
    /// Replaces the list of versions whose runs an engine leases.
    Serve {
        /// The engine. It must have sent a heartbeat before.
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
    /// Skips an occurrence that is too late, and all later ones that are too late, too.
    Miss {
        /// The occurrence, with the time of the first one that is not skipped.
        occurrence: Occurrence,
        /// The number of skipped occurrences.
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
        /// Whether to pause or to resume.
        hold: Hold,
    },
    /// Deletes a chunk of rows that have ended or expired.
    Forget {
        /// The kind of rows.
        past: Past,
        /// The command deletes rows that ended before this time.
        before: Timestamp,
        /// The cursor: the number of the last row that was examined.
        after: Seq,
        /// The maximum number of rows to examine.
        most: u32,
    },
    /// Deletes the row of a dead engine that owns no runs.
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
    /// Decides a command, and writes an entry of the audit log if the command has an effect.
    Audited {
        /// The entry.
        entry: Box<AuditEntry>,
        /// The command.
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
    /// Cancels a deferred event or request before its delivery.
    CancelDelivery {
        /// The workspace.
        ws: Workspace,
        /// The event, or the input of the request.
        event: EventId,
        /// The reason.
        reason: String,
    },
    /// A command on pools.
    Pool {
        /// The workspace.
        ws: Workspace,
        /// The command.
        command: PoolCommand,
    },
    /// Changes an override.
    Override {
        /// The workspace.
        ws: Workspace,
        /// The change.
        change: Box<OverrideChange>,
        /// The author.
        by: Author,
        /// The epoch that the workspace must have; none means any.
        if_epoch: Option<i64>,
    },
    /// Creates a chore that cancels the runs which wait at the gates of a target.
    Purge {
        /// The workspace.
        ws: Workspace,
        /// The target.
        target: Box<Target>,
        /// The reason of the cancellations.
        reason: String,
        /// The epoch that the workspace must have; none means any.
        if_epoch: Option<i64>,
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
    /// Answer to [`Command::Post`], with an element for each event, and to [`Command::SweepChore`] of
    /// a deferred event that was delivered.
    Posted(Vec<Posted>),
    /// Answer to [`Command::Start`], [`Command::Dispatch`], [`Command::Occur`] and
    /// [`Command::Replay`], and to [`Command::SweepChore`] of a deferred request that was delivered.
    Admitted(Outcome),
    /// Answer to [`Command::DispatchThen`]. The second outcome is absent if the first call was
    /// refused.
    AdmittedBoth(Outcome, Option<Box<Outcome>>),
    /// Answer to [`Command::Lease`].
    Leased(Vec<Run>),
    /// Answer to [`Command::Record`].
    Recorded(Recorded),
    /// Answer to [`Command::MarkDead`], [`Command::Reap`], [`Command::Bury`], [`Command::Plan`],
    /// [`Command::HoldSchedule`], [`Command::Miss`] and [`Command::Pool`]: whether the command had
    /// an effect. Answer to [`Command::Occur`], always `false`, if another engine has started the occurrence or the
    /// schedule does not exist any more.
    Changed(bool),
    /// Answer to [`Command::Reap`] if the run was paused and not made ready.
    Paused {
        /// The reason.
        reason: String,
    },
    /// Answer to [`Command::Register`].
    Registered(Registered),
    /// Answer to [`Command::Forget`].
    Forgotten(Forgotten),
    /// Answer to [`Command::Release`].
    Released(Released),
    /// Answer to [`Command::Retire`].
    Retired(Retired),
    /// Answer to [`Command::Session`].
    Session(session::Outcome),
    /// Answer to [`Command::Stream`].
    Stream(StreamAnswer),
    /// Answer to [`Command::Bulk`]: the id of the chore that does the work.
    Left(ChoreId),
    /// Answer to [`Command::CancelDelivery`].
    Undelivered(Box<CancelledDelivery>),
    /// Answer to [`Command::Override`].
    Overridden(Box<Overridden>),
    /// Answer to [`Command::Purge`].
    Purged(Purged),
    /// Answer to [`Command::SignalByName`]: the run that has received the signal.
    Signalled(Option<RunId>),
    /// Answer to a repeated [`Command::Once`]: the answer to the first request.
    Again(Box<Answer>),
    /// Answer to [`Command::Keep`]: the response to send, which is the one that was stored first.
    Kept(Payload),
    /// Answer to all other commands.
    Done,
}

impl Command {
    /// Returns the reads of the command other than rows: definitions and latches.
    #[expect(clippy::too_many_lines, reason = "a table with one entry per command")]
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
                    Then::Continue
                    | Then::Stay
                    | Then::Complete(_)
                    | Then::Fail(_)
                    | Then::Yield => &[],
                };
                let none = none.catalog(&known.ws);
                let sends = report.sends.iter().fold(none, |reads, send| match &send.what {
                    Sent::Event(event) => reads.latch(topic(&known.ws, &event.name), Mode::Shared),
                    Sent::Signal { .. } | Sent::Settle { .. } => reads,
                });
                waits.iter().chain(&report.waits).fold(sends, |reads, wait| match &wait.on {
                    NewWaitOn::Named { name, .. } => {
                        reads.latch(named::latch(&known.ws, name), Mode::Exclusive)
                    }
                    NewWaitOn::Event { name, matches, .. } => {
                        let (path, value) = matches.first().cloned().unwrap_or_default();
                        let latch = Latch::matching(&known.ws, name, &path, &value);
                        reads.latch(latch, Mode::Exclusive)
                    }
                    NewWaitOn::Time
                    | NewWaitOn::Retry { .. }
                    | NewWaitOn::Deferred { .. }
                    | NewWaitOn::Pools(_)
                    | NewWaitOn::Registered
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
            | Self::Purge { ws, .. }
            | Self::CancelDelivery { ws, .. }
            | Self::Bulk { ws, .. } => none.catalog(ws),
            Self::SignalByName { ws, name, .. } => {
                none.catalog(ws).latch(named::latch(ws, name), Mode::Shared)
            }
            Self::Lease { claims, .. } => {
                claims.iter().fold(none, |reads, (claim, _)| reads.catalog(&claim.ws))
            }
            Self::SweepChore { known } => {
                let reads = none.catalog(&known.ws);
                if let Work::Deliver(deferred) = &known.work {
                    return delivery::reads(known, deferred);
                }
                if matches!(known.work, Work::ExpireOverride { .. }) {
                    return reads.latch(Latch::Definitions(known.ws.clone()), Mode::Exclusive);
                }
                reads
            }
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
            Self::Once { command, .. } | Self::Audited { command, .. } => command.reads(),
            Self::Stream { ws, command } => command.reads(ws),
            Self::Register { ws, .. }
            | Self::Release { ws, .. }
            | Self::Retire { ws, .. }
            | Self::Pool { ws, .. }
            | Self::Override { ws, .. } => {
                none.catalog(ws).latch(Latch::Definitions(ws.clone()), Mode::Exclusive)
            }
        }
    }

    /// Returns the run or the chore that is part of the command.
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

    /// Returns the reads of a plain report: they are known without a probe. None for all other
    /// commands.
    fn plain_reads(&self) -> Option<ReadSet> {
        let Self::Record { known, report } = self else { return None };
        report.plain_reads(known)
    }

    /// Decides the command on a draft.
    #[expect(clippy::too_many_lines, reason = "a table with one entry per command")]
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
            Self::SignalByName { ws, name, data } => {
                named::signal(draft, ws, name, data).map(Answer::Signalled)
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
            Self::SweepChore { known } => chore::sweep(draft, known.id.seq),
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
            Self::Audited { entry, command } => {
                audit::audited(draft, entry, |draft| command.decide(draft))
            }
            Self::Keep { asked, response, done } => {
                idempotency_key::keep(draft, asked, response, *done).map(Answer::Kept)
            }
            Self::CancelDelivery { ws, event, reason } => {
                let cancelled = delivery::cancel(draft, ws, *event, reason);
                cancelled.map(|it| Answer::Undelivered(Box::new(it)))
            }
            Self::Pool { ws, command } => command.decide(draft, ws).map(Answer::Changed),
            Self::Override { ws, change, by, if_epoch } => {
                let overridden = overrides::change(draft, ws, change, by, *if_epoch);
                overridden.map(|it| Answer::Overridden(Box::new(it)))
            }
            Self::Purge { ws, target, reason, if_epoch } => {
                overrides::purge(draft, ws, target, reason, *if_epoch).map(Answer::Purged)
            }
            Self::Access { command } => command.decide(draft).map(Answer::Changed),
        }
    }
}

fn done(decided: Decided<()>) -> Decided<Answer> {
    decided.map(|()| Answer::Done)
}

/// Predicts the rows that the commands will read, by deciding the commands once on the rows that
/// are part of them.
///
/// The prediction may miss rows: the decision then stops and requests them.
pub fn probe(
    commands: &[(Command, u64)],
    catalogs: &BTreeMap<Workspace, Arc<Catalog>>,
    expected: &Arc<Expected>,
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
    reads.merge(missing(tried, base, expected.clone()).0);
    reads
}

/// Returns the reads that the snapshot lacks, and the snapshot. The commands are decided as if
/// rows that are not in the snapshot did not exist.
fn missing<'a>(
    commands: impl IntoIterator<Item = (&'a Command, u64)>,
    base: Snapshot,
    expected: Arc<Expected>,
) -> (ReadSet, Snapshot) {
    let mut draft = Draft::probing(base, expected);
    for (command, salt) in commands {
        // Only the recorded reads are used, not the answer.
        let _ = draft.attempt(salt, |draft| command.decide(draft));
    }
    draft.into_probed()
}

/// Result of deciding several commands.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is only one value per transaction")]
pub enum Batch {
    /// The changes, and an answer for each command. A command that did not fit into the
    /// transaction has `None` and is decided in the next one.
    Decided(Vec<Change>, Vec<Option<Result<Answer, Refusal>>>),
    /// More rows are needed before the commands can be decided.
    Need(ReadSet, Snapshot),
}

/// Decides commands one after another. Each command sees the changes of the commands before it.
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
    // A decision stops at the first missing row. A probe finds the other missing rows, too, so that
    // they are read together and not one by one.
    let commands = commands.iter().map(|(command, salt)| (command, *salt));
    let (more, base) = missing(commands, draft.into_base(), Arc::default());
    needed.merge(more);
    Batch::Need(needed, base)
}
