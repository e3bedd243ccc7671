//! A durable workflow engine with flow control.
//!
//! A program embeds this crate and uses three types: [`Engine`], [`Workflow`] and [`Ctx`]. The
//! decisions are pure functions in [`core`]; the stores that persist their rows are in [`store`].

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "an engine names the rows and answers that it acts on; the others are the store's"
)]

mod api;
mod builder;
mod controls;
pub mod cron;
mod flow;
mod idempotency_key;
mod observe;
mod operate;
#[cfg(feature = "otel")]
pub mod otel;
mod reaction;
pub mod testing;
mod workflow;

mod context;
mod error;
mod handler;
mod health;
mod history;
mod step_error;

mod alarm;
mod committer;
mod drive;
mod dynamic;
mod endings;
mod engine;
mod entropy;
mod heartbeat;
mod keys;
mod load;
mod open;
mod quiet;
mod registry;
mod retention;
mod schedule;
mod stranded;
mod stream;
mod sweep;
mod tasks;
mod telemetry;
mod timer;
mod turns;
mod why;

pub use api::{Engine, new_event, new_request};
pub use builder::{DEFAULT_WORKSPACE, EngineBuilder};
pub use context::{Ctx, FromAnswer, Replaced, Returned, Session, Step, Wait};
pub use controls::{
    Batch, Concurrency, Debounce, Handoff, Idempotency, OnNewVersion, Policy, Priority, Rate,
    Schedule, Singleton,
};
pub use error::Error;
pub use flow::{Action, ActionKey, Flow};
pub use handler::{Handler, MAX_VALUE_BYTES, ServedWorkflow};
pub use health::Health;
pub use history::{Histories, History, Input, Recorded};
pub use idempotency_key::IdempotentCall;
pub use load::MAX_STEPS;
pub use operate::BulkProgress;
pub use reaction::{
    CloseProgress, Closing, Reaction, ReactionCtx, StreamPage, StreamQuery, StreamView,
};
pub use retention::Retention;
pub use step_error::{Result, StepError, StepResultExt};
pub use stream::{
    ActError, Acted, Cursor, DEFAULT_RETRIES, Head, Listed, Loaded, Page, Query, State, Stream,
    StreamEvent, Streams, event as events,
};
pub use tidegate_core as core;
pub use tidegate_core::{
    definition::Retry,
    event::{NewEvent, Posted},
    id::{EventId, RunId, ScheduleId},
    request::Request,
};
pub use tidegate_store as store;
pub use tidegate_store::lease;
pub use timer::Timer;
pub use workflow::Workflow;

#[cfg(doctest)]
mod book;
