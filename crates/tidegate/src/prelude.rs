//! The names that most programs need: `use tidegate::prelude::*;`.
//!
//! [`Result`] replaces the standard `Result`: its default error type is [`StepError`]. `Result<T,
//! E>` works as usual.

#[doc(no_inline)]
pub use crate::{
    Action, Adaptive, Batch, CancelOn, Concurrency, Ctx, Debounce, Engine, Fair, Flow, Idempotency,
    Occurrence, Policy, Pool, Priority, Queue, Rate, Result, Retry, RunHandle, RunStatus,
    RunUpdate, Schedule, Singleton, StepError, StepResultExt, WaitsFor, Workflow, WorkflowRef,
};
