//! A durable workflow engine with exact flow control, embedded in your program.
//!
//! Work arrives in bursts, for many tenants and from many processes, and the services that it calls
//! have limits. Something has to decide what runs now, what waits, what merges and what is dropped,
//! and those decisions must hold while processes crash and versions change. Tidegate makes each
//! decision in one transaction of the store that all processes share, records it, and
//! [explains](Engine::why) it.
//!
//! # The model
//!
//! - A [`Workflow`] is an async function with a name. Its [controls](#controls) say how many of its
//!   runs may execute, and when.
//! - An [`Engine`] serves workflows on a [store](#stores-and-features). Any number of engines share
//!   a PostgreSQL database, and their limits hold over all of them.
//! - A *run* is one execution of a workflow, started [by name](Engine::start), by an
//!   [event](Engine::send), by a [request](Engine::dispatch) or by a [`Schedule`]. A [`RunHandle`]
//!   has its status, its output and its updates.
//! - A *step* ([`Ctx::step`]) is a part of a run whose result is recorded. After a crash the
//!   function starts from its top, on any engine, and recorded steps return their records. Whatever
//!   has an effect, or differs from call to call, belongs in a step.
//! - A *wait* ([`Ctx::sleep`], [`Ctx::wait_for_event`], [`Ctx::invoke`]) needs neither a worker nor
//!   memory while it lasts.
//!
//! # A durable workflow
//!
//! ```
//! use std::time::Duration;
//!
//! use serde::{Deserialize, Serialize};
//! use tidegate::prelude::*;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Signup {
//!     tenant: String,
//!     mail: String,
//! }
//!
//! /// A client, handed to all handlers.
//! struct Mailer;
//!
//! impl Mailer {
//!     async fn send(&self, to: &str, _idempotency_key: &str) -> Result<String> {
//!         Ok(format!("welcomed {to}"))
//!     }
//! }
//!
//! async fn welcome(ctx: Ctx, signup: Signup) -> Result<String> {
//!     let mailer = ctx.state::<Mailer>()?;
//!     // Recorded when it is done: after a crash the run continues behind it.
//!     let key = ctx.idempotency_key("mail");
//!     let text = ctx.step("mail", || mailer.send(&signup.mail, &key)).await?;
//!     ctx.sleep("pause", Duration::from_millis(10)).await?;
//!     Ok(text)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<()> {
//! let limit = Concurrency::limit(5).key("tenant");
//! let workflow = Workflow::new("welcome", welcome).concurrency(limit);
//! let welcome = workflow.reference();
//! // `Engine::sqlite(path)` and `Engine::postgres(url)` survive a crash.
//! let engine = Engine::in_memory().state(Mailer).workflow(workflow).start().await?;
//!
//! let signup = Signup { tenant: "acme".to_owned(), mail: "ada@example.com".to_owned() };
//! let run = engine.start(&welcome, signup).await?;
//! assert_eq!(run.output().await?, "welcomed ada@example.com");
//! engine.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Controls
//!
//! | control | effect | when it is full |
//! |---|---|---|
//! | [`Concurrency`] | limits the runs at once, per key | runs are queued |
//! | [`Rate`] as [throttle](Workflow::throttle) | starts spread over time | runs are queued |
//! | [`Rate`] as [rate limit](Workflow::rate_limit) | so many starts in a period | inputs drop |
//! | [`Debounce`] | one run when a burst is over | inputs merge |
//! | [`Batch`] | one run for many inputs | inputs merge |
//! | [`Singleton`] | at most one run that has not ended | skipped, replaces the older one, or waits |
//! | [`Idempotency`] | one run per key and period | repeats get the first run |
//! | [`Priority`] | an earlier or later position in queues | |
//! | [start within](Workflow::start_within) | no start after a time in queues | cancelled |
//! | [`CancelOn`] | an event ends the runs of its value | cancelled |
//! | [`Handoff`] | one version hands over to the next | |
//! | [`Policy`] | for a request to a busy session | queued, refused, merged, or it replaces |
//!
//! A run takes one unit of a limit, or a [`Cost`]. Controls are applied in one fixed order, and a combination that would lose inputs is refused
//! when the engine starts. The runs that count against a limit are stored as a set, not as a
//! counter, so a slot cannot leak.
//!
//! # Tests on a virtual clock
//!
//! [`testing::TestHarness`] runs the real engine, with limits and leases, on a clock that the test
//! advances. Two days of it take a millisecond.
//!
//! ```
//! use std::time::Duration;
//!
//! use tidegate::{prelude::*, testing::TestHarness};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<()> {
//! let workflow = Workflow::new("remind", async |ctx: Ctx, name: String| {
//!     ctx.sleep("two days", Duration::from_secs(2 * 24 * 60 * 60)).await?;
//!     Ok(format!("how is it going, {name}?"))
//! });
//! let (harness, remind) = (TestHarness::new(), workflow.reference());
//! let engine = harness.engine().workflow(workflow).start().await?;
//! let run = engine.start(&remind, "Ada".to_owned()).await?;
//! harness.advance(Duration::from_secs(2 * 24 * 60 * 60 - 1)).await;
//! assert_eq!(run.status().await?, RunStatus::Waiting);
//! harness.advance(Duration::from_secs(1)).await;
//! assert_eq!(run.output().await?, "how is it going, Ada?");
//! # Ok(())
//! # }
//! ```
//!
//! # Errors
//!
//! Handlers and steps return [`Result<T>`](Result) with a [`StepError`], into which every error
//! converts by `?`. A step that fails is retried by the [`Retry`] of the step or workflow, unless
//! the error is [fatal](StepResultExt::fatal). Operations of an engine return [`Error`], whose
//! [`code`](Error::code) never changes its meaning; the error of the database is its
//! [`source`](std::error::Error::source).
//!
//! # Stores and features
//!
//! | feature | default | adds | C compiler |
//! |---|---|---|---|
//! | `sqlite` | yes | `Engine::sqlite`: one file, owned by one process | yes |
//! | `postgres` | | `Engine::postgres`: a database for any number of processes | no |
//! | `postgres-tls` | | `postgres` with TLS, as `sslmode` of the address says | yes (`ring`) |
//! | `redis` | | leases in Redis ([`lease`]) | no |
//! | `otel` | | export of traces and metrics by OpenTelemetry, over HTTPS too | yes (`ring`) |
//! | `schemars` | | JSON Schemas of the types in answers, for a description of an API | no |
//!
//! [`Engine::in_memory`] is always available. With `default-features = false` it is the only store.
//!
//! Transactional steps use the transaction type of the store's database driver, so a program with
//! such steps must depend on the same driver version: `rusqlite` 0.39 to 0.41, `tokio-postgres`
//! 0.7. `sqlx` 0.9 and `diesel` 2.3 with their feature `sqlite` can be dependencies of the same
//! program; `sqlx` 0.8 cannot.

#![cfg_attr(docsrs, feature(doc_cfg))]
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
mod occurrence;
mod operate;
#[cfg(feature = "otel")]
pub mod otel;
mod overrides;
pub mod prelude;
mod reaction;
mod reference;
mod run_handle;
pub mod testing;
mod workflow;

mod context;
mod error;
mod exports;
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
mod parse;
mod pools;
mod quiet;
mod registry;
mod retention;
mod schedule;
mod shared_state;
mod stranded;
mod stream;
mod sweep;
mod tasks;
mod telemetry;
mod timer;
mod turns;
mod why;

// Workflows, their runs, and the engine.
pub use api::{Engine, new_event, new_request};
pub use builder::{DEFAULT_WORKSPACE, EngineBuilder};
pub use context::{Answers, Ctx, FromAnswer, PendingWait, PooledStep, Replaced, Returned};
pub use context::{SendEvent, Session, Step, Wait};
pub use error::Error;
pub use flow::{Action, ActionKey, Flow};
pub use handler::{Handler, MAX_VALUE_BYTES, ServedWorkflow};
pub use health::Health;
pub use load::MAX_STEPS;
pub use occurrence::Occurrence;
pub use reference::{WorkflowRef, WorkflowTarget};
pub use run_handle::{RunHandle, RunUpdate, RunUpdates};
pub use step_error::{Result, StepError, StepResultExt};
pub use timer::Timer;
pub use workflow::Workflow;

// Controls.
pub use controls::{
    Adaptive, Batch, CancelOn, Concurrency, Cost, Debounce, Fair, FromData, Handoff, Idempotency,
    KeySource, OnNewVersion, Policy, Pool, Priority, Queue, Rate, Schedule, Singleton, WaitsFor,
};

// Queries and operations.
pub use history::{Histories, History, Input, Recorded};
pub use idempotency_key::IdempotentCall;
pub use operate::BulkProgress;
pub use pools::PoolView;
pub use retention::Retention;

// Streams and reactions.
pub use reaction::{
    CloseProgress, Closing, Reaction, ReactionCtx, StreamPage, StreamQuery, StreamView,
};
pub use stream::{
    ActError, Acted, Cursor, DEFAULT_RETRIES, Head, Listed, Loaded, Page, Query, State, Stream,
    StreamEvent, Streams, event as events,
};

// Types of the other crates.
pub use exports::*;
#[cfg(doctest)]
mod book;
