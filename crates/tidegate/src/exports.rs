//! Types of other crates that are part of the public API of this crate.

/// Retries, with the backoff between them:
///
/// ```
/// use std::time::Duration;
/// use tidegate::prelude::*;
///
/// let retry = Retry::attempts(5).exponential(Duration::from_secs(1), Duration::from_secs(60));
/// let mail = Workflow::new("mail", async |_: Ctx, _: String| Ok(())).retry(retry);
/// ```
#[doc(inline)]
pub use tidegate_core::definition::Retry;
/// Status of a [`RunHandle`](crate::RunHandle), and filter of [`Engine::runs`](crate::Engine::runs):
///
/// ```
/// use tidegate::prelude::*;
///
/// assert_eq!(RunStatus::Waiting.as_str(), "waiting");
/// ```
#[doc(inline)]
pub use tidegate_core::list::RunStatus;
#[doc(inline)]
pub use tidegate_core::{
    audit::{AuditEntry, Author},
    delivery::{CancelledDelivery, DeferredEvent},
    explain::{Binding, ClosedBy},
    id::{ChoreId, ScheduleId, Seq},
    idempotency_key::IdempotentRequest,
    list::{RunFilter, RunPage, RunSummary},
    observe::{
        Newest, Part,
        audit::AuditFilter,
        events::{EventDetails, Name as EventName},
        folds::FlowState,
        gates::{GateFilter, GatePage, GateView},
        origin::Origin,
        overrides::Effect as OverrideEffect,
        receipts::{ReceiptEntry, ReceiptFilter},
        schedules::{Place as SchedulePlace, ScheduleFilter, SchedulePage, ScheduleView},
        stats::Stats,
        timeline::Timeline,
    },
    overrides::{
        Fields as OverrideFields, KeyValue, Limited, Overridden, Override, OverrideChange, Purged,
        Target as OverrideTarget,
    },
    row::{
        Audit, BulkCounts, BulkFilter, BulkWhat, GateKey, Kind as EventKind, Purpose, Reply,
        SessionOp, SessionRef, Step as RecordedStep, StepKind, Wait as RecordedWait,
    },
    session::{NewSessionOp, Outcome as SessionOutcome},
    version::{Registered, Released, Retired},
};
#[doc(inline)]
pub use tidegate_core::{
    command::Refusal,
    definition::{Code as ProblemCode, Definition, Problem},
    event::{NewEvent, Outcome, Posted},
    explain::{Why, Workers},
    flow::{By, Verdict, close::GateToClose},
    id::{EventId, RunId},
    json::{MAX_EVENT_BYTES, Payload, PayloadError},
    request::Request,
    row::{Chunk, Ended, Ending, Event, Progress, Run, RunError, Workspace},
    run::record::{NewStep as NewRecord, Until},
    time::Timestamp,
};
#[doc(inline)]
pub use tidegate_core::{
    reaction::{
        Backoff, BackoffKind, Filter as StreamFilter, Follower, Pattern as StreamPattern,
        Reaction as ReactionDefinition, Remedy, StreamSelection,
    },
    row::StreamEventRow,
    stream::{Behind, Committed, Expected, NewLogged as NewStreamEvent, Truncated},
};
#[doc(inline)]
pub use tidegate_store::{
    Clock, ManualClock, MemoryStore, Reason, Store, StoreError, SystemClock, lease,
};
#[cfg(feature = "postgres")]
#[doc(inline)]
pub use tidegate_store::{PostgresOptions, PostgresStore, PostgresTransaction, SqlError};
#[cfg(feature = "sqlite")]
#[doc(inline)]
pub use tidegate_store::{SqliteStore, SqliteTransaction};
