//! Refusals of commands, each with its stable code.

use crate::{
    access::AccessRefusal,
    definition::DefinitionErrors,
    id::{EventId, RunId, Seq},
    overrides::OverrideRefusal,
    pool::PoolRefusal,
    reaction::ReactionRefusal,
    row::EngineId,
    run::output::{MAX_CHUNK_BYTES, MAX_CHUNKS},
    schema::Mismatch,
    session::SessionError,
    stream::StreamRefusal,
    time::Timestamp,
};

/// Reason why a command was refused. A refused command changes no row.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The workspace has no such run.
    #[error("there is no run `{0}`")]
    NoRun(RunId),
    /// The run has ended.
    #[error("run `{run}` is {state} already")]
    Ended {
        /// The run.
        run: RunId,
        /// How it ended.
        state: &'static str,
    },
    /// The run has not ended.
    #[error("run `{0}` has not ended: cancel it first, or wait for its end")]
    NotEnded(RunId),
    /// The run has not recorded this step.
    #[error("run `{run}` has recorded no step `{step}`: {hint}")]
    NoStep {
        /// The run.
        run: RunId,
        /// The step.
        step: String,
        /// A suggestion: the steps that the run has recorded.
        hint: String,
    },
    /// A replay would keep steps whose effects a compensating run has undone.
    #[error(
        "a compensating run has undone effects of run `{run}` before step `{step}`: \
         replay it from its start, or from step `{first}`"
    )]
    Undone {
        /// The run.
        run: RunId,
        /// The step from which the replay was requested.
        step: String,
        /// The first compensation that the run registered.
        first: String,
    },
    /// The input is no longer stored.
    #[error("the input of run `{0}` is no longer stored: post the event or the request again")]
    InputGone(RunId),
    /// The run is a compensation or a failure handler: its input is given by another run.
    #[error("run `{0}` gets its input from the run that it follows: replay it without an input")]
    InputFixed(RunId),
    /// The lease is no longer valid: another worker has the run, or it was cancelled.
    #[error("the lease with fence {fence} on run number {run} is no longer valid")]
    Fenced {
        /// The run.
        run: Seq,
        /// The fence of the report.
        fence: i64,
    },
    /// The engine was declared dead: other engines have its runs, and it gets no new ones.
    #[error("engine {0:032x} was declared dead; a restarted process needs a new id")]
    EngineDead(EngineId),
    /// The engine has never sent a heartbeat, or was declared dead and deleted.
    #[error("engine {0:032x} has no row: it must send a heartbeat before any other command")]
    NoEngine(EngineId),
    /// No version of this workflow is released.
    #[error("no version of `{name}` is released in app `{app}`")]
    NoWorkflow {
        /// The app.
        app: String,
        /// The workflow.
        name: String,
    },
    /// The input does not fit the action's schema.
    #[error("the input of `{name}` cannot be used: {mismatch}")]
    BadInput {
        /// The action.
        name: String,
        /// The mismatch: its path and the reason.
        mismatch: Mismatch,
    },
    /// The workflow has no such version.
    #[error("`{name}` in app `{app}` has no version {version}")]
    NoVersion {
        /// The app.
        app: String,
        /// The workflow.
        name: String,
        /// The version.
        version: u32,
    },
    /// No current release has this schedule.
    #[error("no current release has a schedule `{0}`: list the schedules to see their ids")]
    NoSchedule(String),
    /// The version number is registered with another definition.
    #[error(
        "version {version} of `{name}` in app `{app}` is registered with another definition; \
         give the new one a higher number"
    )]
    VersionChanged {
        /// The app.
        app: String,
        /// The workflow.
        name: String,
        /// The version.
        version: u32,
    },
    /// A chunk of output is too large.
    #[error(
        "chunk {n} of step `{step}` has {bytes} bytes, over the limit of {MAX_CHUNK_BYTES}; split it"
    )]
    ChunkTooLarge {
        /// The step; empty for a chunk that the handler emits outside all steps.
        step: String,
        /// The chunk's position in the step.
        n: u32,
        /// The chunk's size.
        bytes: usize,
    },
    /// The run has emitted the maximum number of chunks.
    #[error(
        "run `{0}` has emitted {MAX_CHUNKS} chunks, which is the limit; emit fewer and larger ones"
    )]
    TooManyChunks(RunId),
    /// The workspace has no such event.
    #[error("there is no event `{0}`")]
    NoEvent(EventId),
    /// The event was delivered or cancelled.
    #[error("event `{event}` is {end} already; `GET /deferred` lists those that wait")]
    DeliveryEnded {
        /// The event.
        event: EventId,
        /// How the delivery ended.
        end: &'static str,
    },
    /// The request waits for its delivery: its run does not exist yet.
    #[error(
        "the request of run `{run}` is deferred until {}: cancel it, or pause the run after that",
        at.rfc3339()
    )]
    Deferred {
        /// The run.
        run: RunId,
        /// The time of the delivery.
        at: Timestamp,
    },
    /// The time of a delivery is too far ahead.
    #[error(
        "deliverAt must be at most 365 days after now ({}), got {}; send it later",
        now.rfc3339(), at.rfc3339()
    )]
    TooFarAhead {
        /// The time of the delivery.
        at: Timestamp,
        /// The current time.
        now: Timestamp,
    },
    /// The workspace has no such reaction.
    #[error("there is no reaction `{0}`")]
    NoReaction(String),
    /// A command on streams was refused.
    #[error(transparent)]
    Stream(#[from] StreamRefusal),
    /// A command on reactions was refused.
    #[error(transparent)]
    Reaction(#[from] ReactionRefusal),
    /// An operation on a session failed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Another request was sent with the same idempotency key.
    #[error(
        "this Idempotency-Key was used for a different request within the last 24 hours: repeat \
        that request unchanged, or use a new key"
    )]
    KeyReused,
    /// The first request with the same idempotency key is still in progress.
    #[error("the first request with this Idempotency-Key is still in progress: retry later")]
    InProgress,
    /// A command on API keys was refused.
    #[error(transparent)]
    Access(#[from] AccessRefusal),
    /// A command on pools was refused.
    #[error(transparent)]
    Pool(#[from] PoolRefusal),
    /// The definition is valid in itself, but not with the pools of the workspace.
    #[error(transparent)]
    Definition(#[from] DefinitionErrors),
    /// A change of an override was refused.
    #[error(transparent)]
    Override(#[from] OverrideRefusal),
    /// A stored definition cannot be read.
    #[error("the stored definition cannot be read: {0}")]
    Unreadable(String),
}

impl Refusal {
    /// Returns the stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoRun(_) => "no_run",
            Self::Ended { .. } => "run_ended",
            Self::NotEnded(_) => "run_not_ended",
            Self::NoStep { .. } => "no_step",
            Self::Undone { .. } => "undone",
            Self::InputGone(_) => "input_gone",
            Self::InputFixed(_) => "input_fixed",
            Self::Fenced { .. } => "fenced",
            Self::EngineDead(_) => "engine_dead",
            Self::NoEngine(_) => "no_engine",
            Self::NoWorkflow { .. } => "no_workflow",
            Self::BadInput { .. } => "bad_input",
            Self::NoVersion { .. } => "no_version",
            Self::NoSchedule(_) => "no_schedule",
            Self::VersionChanged { .. } => "version_changed",
            Self::ChunkTooLarge { .. } => "chunk_too_large",
            Self::TooManyChunks(_) => "too_many_chunks",
            Self::NoEvent(_) => "no_event",
            Self::DeliveryEnded { .. } => "delivery_ended",
            Self::Deferred { .. } => "deferred",
            Self::TooFarAhead { .. } => "too_far_ahead",
            Self::NoReaction(_) => "no_reaction",
            Self::Stream(refusal) => refusal.code(),
            Self::Reaction(refusal) => refusal.code(),
            Self::Session(error) => error.code(),
            Self::KeyReused => "idempotency_mismatch",
            Self::InProgress => "in_progress",
            Self::Access(refusal) => refusal.code(),
            Self::Pool(refusal) => refusal.code(),
            Self::Definition(_) => "bad_definition",
            Self::Override(refusal) => refusal.code(),
            Self::Unreadable(_) => "definition_unreadable",
        }
    }
}
