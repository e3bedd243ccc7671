//! The names that most programs need: `use tidegate::prelude::*;`.
//!
//! [`Result`] replaces the standard one with a [`StepError`] as its default error;
//! `Result<T, E>` means the same as before.

#[doc(no_inline)]
pub use crate::{
    Action, Batch, Concurrency, Ctx, Debounce, Engine, Flow, Idempotency, Occurrence, Policy,
    Priority, Rate, Result, Retry, RunHandle, RunStatus, RunUpdate, Schedule, Singleton, StepError,
    StepResultExt, Workflow, WorkflowRef,
};
