//! Refusals of commands, each with its stable code.

use crate::{
    access::AccessRefusal,
    id::{RunId, Seq},
    reaction::ReactionRefusal,
    row::EngineId,
    run::output::{MAX_CHUNK_BYTES, MAX_CHUNKS},
    schema::Mismatch,
    session::SessionError,
    stream::StreamRefusal,
};

/// Refusal of a command: nothing changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// No such run in this workspace.
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
    /// The run has recorded no such step.
    #[error("run `{run}` has recorded no step `{step}`: {hint}")]
    NoStep {
        /// The run.
        run: RunId,
        /// The step.
        step: String,
        /// The recorded steps.
        hint: String,
    },
    /// The effects of the kept steps have been compensated.
    #[error(
        "what run `{run}` did before step `{step}` is undone by a compensating run: \
         replay it from its start, or from step `{first}`"
    )]
    Undone {
        /// The run.
        run: RunId,
        /// The requested step.
        step: String,
        /// The first compensation that the run registered.
        first: String,
    },
    /// The input is no longer stored.
    #[error("the input of run `{0}` is not kept any more: post it again")]
    InputGone(RunId),
    /// The run follows another and has no input of its own.
    #[error("run `{0}` follows another run and has that one's input: replay it without one")]
    InputFixed(RunId),
    /// The lease is no longer valid: another worker took over, or the run was cancelled.
    #[error("the lease with fence {fence} on run number {run} is no longer good")]
    Fenced {
        /// The run.
        run: Seq,
        /// The fence that was given.
        fence: i64,
    },
    /// The engine was declared dead: its runs belong to others now, and it gets no more.
    #[error("engine {0:032x} was declared dead; a restarted process needs a new id")]
    EngineDead(EngineId),
    /// The engine has never sent a heartbeat, or was declared dead and deleted.
    #[error("engine {0:032x} is not known: it beats before it asks for anything")]
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
    /// No such version.
    #[error("`{name}` in app `{app}` has no version {version}")]
    NoVersion {
        /// The app.
        app: String,
        /// The workflow.
        name: String,
        /// The version.
        version: u32,
    },
    /// No such schedule.
    #[error("there is no schedule `{0}` in a current release: list those that there are")]
    NoSchedule(String),
    /// The version number is taken by another definition.
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
        /// The step; empty for the handler itself.
        step: String,
        /// The chunk's position in the step.
        n: u32,
        /// The chunk's size.
        bytes: usize,
    },
    /// The run has reached the limit of emitted chunks.
    #[error(
        "run `{0}` has emitted {MAX_CHUNKS} chunks, which is the limit; emit fewer and larger ones"
    )]
    TooManyChunks(RunId),
    /// No such reaction.
    #[error("there is no reaction `{0}`")]
    NoReaction(String),
    /// A refusal of a stream command.
    #[error(transparent)]
    Stream(#[from] StreamRefusal),
    /// A refusal of a reaction command.
    #[error(transparent)]
    Reaction(#[from] ReactionRefusal),
    /// An operation on a session failed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Another request was sent with the same idempotency key.
    #[error(
        "the Idempotency-Key was used for another request within 24 hours: repeat that one as it \
         was, or take a new key"
    )]
    KeyReused,
    /// The same request is still being answered.
    #[error("the same request under this Idempotency-Key is being answered: ask again")]
    InProgress,
    /// A refused change of API keys.
    #[error(transparent)]
    Access(#[from] AccessRefusal),
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
            Self::NoReaction(_) => "no_reaction",
            Self::Stream(refusal) => refusal.code(),
            Self::Reaction(refusal) => refusal.code(),
            Self::Session(error) => error.code(),
            Self::KeyReused => "idempotency_mismatch",
            Self::InProgress => "in_progress",
            Self::Access(refusal) => refusal.code(),
            Self::Unreadable(_) => "definition_unreadable",
        }
    }
}
