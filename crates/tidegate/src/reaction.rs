//! Reactions: code that follows streams, in order within a stream and in parallel over streams.
//!
//! The commits, sent events and calls that a handler requests from its [`ReactionCtx`] are
//! committed together with the ack of the event, so that they happen exactly once. A reaction has
//! one task that claims streams (`runner.rs`) and one task per claimed stream (`delivery.rs`).

mod catch_up;
mod close;
mod context;
mod delivery;
mod lease;
mod operate;
#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    expect(unused, reason = "a store in memory has no database")
)]
mod projection;
mod runner;
mod trigger;

use std::{fmt, future::Future, sync::Arc, time::Duration};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tidegate_core::{
    definition::{Code as ProblemCode, Problem},
    reaction::{Backoff, Reaction as Definition, ReactionProblem},
};

pub(crate) use self::{
    catch_up::follow,
    runner::{Reactions, run},
    trigger::{asks, triggers},
};
pub use self::{
    close::{CloseProgress, Closing},
    context::ReactionCtx,
    operate::{StreamPage, StreamQuery, StreamView},
};
use crate::{
    events,
    step_error::{Result, StepError},
    stream::StreamEvent,
    timer::BoxFuture,
};

/// Default number of streams that one engine processes at once.
const PARALLEL: usize = 10;

/// Maximum number of streams that one engine processes at once. Each holds a batch of events in
/// memory.
const MOST_PARALLEL: usize = 1000;

type Each = Arc<dyn Fn(ReactionCtx, StreamEvent) -> BoxFuture<Result<()>> + Send + Sync>;
#[cfg(feature = "sqlite")]
type SqliteFold =
    Arc<dyn Fn(&tidegate_store::SqliteTransaction<'_>, &[StreamEvent]) -> Result<()> + Send + Sync>;
#[cfg(feature = "postgres")]
type PostgresFold = Arc<
    dyn Fn(tidegate_store::PostgresTransaction, Vec<StreamEvent>) -> BoxFuture<Result<()>>
        + Send
        + Sync,
>;

/// Code of a reaction.
#[derive(Clone, Default)]
pub(crate) enum Code {
    /// No code was given.
    #[default]
    None,
    /// Handler that gets one event at a time.
    Each(Each),
    /// Fold that writes a batch of events to tables of the store's own database.
    #[cfg_attr(
        not(any(feature = "sqlite", feature = "postgres")),
        expect(dead_code, reason = "a store in memory has no database")
    )]
    Fold(Folds),
    /// Built-in code that starts workflows by their stream triggers.
    Triggers,
}

/// Folds, one for each kind of database.
#[derive(Clone, Default)]
pub(crate) struct Folds {
    #[cfg(feature = "sqlite")]
    sqlite: Option<SqliteFold>,
    #[cfg(feature = "postgres")]
    postgres: Option<PostgresFold>,
}

/// A reaction to the events of streams, with its code.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use tidegate::{Reaction, ReactionCtx};
///
/// #[derive(Serialize, Deserialize)]
/// enum Account {
///     Opened { owner: String },
///     Closed,
/// }
///
/// let welcome = Reaction::new("welcome").source("account-*").on(
///     async |ctx: ReactionCtx, event: Account| {
///         if let Account::Opened { owner } = event {
///             ctx.send("mail.welcome", serde_json::json!({ "to": owner }))?;
///         }
///         Ok(())
///     },
/// );
/// ```
#[must_use]
pub struct Reaction {
    definition: Map<String, Value>,
    parallel: usize,
    code: Code,
}

impl fmt::Debug for Reaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reaction").field("definition", &self.definition).finish_non_exhaustive()
    }
}

impl Reaction {
    /// Creates a reaction to the events of all streams. It has no code yet.
    pub fn new(name: &str) -> Self {
        let mut definition = Map::new();
        definition.insert("name".to_owned(), json!(name));
        definition.insert("source".to_owned(), json!("*"));
        Self { definition, parallel: PARALLEL, code: Code::None }
    }

    fn with(mut self, field: &str, value: Value) -> Self {
        self.definition.insert(field.to_owned(), value);
        self
    }

    /// Sets the streams that the reaction follows, instead of all: `orders-1`, or `orders-*` for
    /// all streams with this prefix.
    pub fn source(self, source: &str) -> Self {
        self.with("source", json!(source))
    }

    /// Starts at the current end of each stream: the reaction sees only events that are committed
    /// after its first definition.
    pub fn from_head(self) -> Self {
        self.with("fromHead", json!(true))
    }

    /// Handles each event that is a variant of `E`.
    ///
    /// Events of other names are skipped.
    pub fn on<E, F, Fut>(self, handler: F) -> Self
    where
        E: DeserializeOwned + Send + 'static,
        F: Fn(ReactionCtx, E) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        let (handler, names) = (Arc::new(handler), events::names::<E>());
        self.code(Code::Each(Arc::new(move |ctx, event: StreamEvent| {
            let handler = handler.clone();
            Box::pin(async move {
                if names.is_some_and(|names| !names.contains(&event.name.as_str())) {
                    return Ok(());
                }
                let read = events::read::<E>(&event.name, &event.data);
                let unreadable =
                    |error: crate::Error| StepError::coded("BadEvent", error.to_string());
                handler(ctx, read.map_err(|error| unreadable(error).fatal())?).await
            })
        })))
    }

    /// Handles each event in its stored form, whatever its name is.
    pub fn on_any<F, Fut>(self, handler: F) -> Self
    where
        F: Fn(ReactionCtx, StreamEvent) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        self.code(Code::Each(Arc::new(move |ctx, event| {
            let handler = handler.clone();
            Box::pin(async move { handler(ctx, event).await })
        })))
    }

    /// Folds batches of events into tables of the store's own SQLite file.
    ///
    /// The fold's writes and the ack of the events are committed together or not at all.
    #[cfg(feature = "sqlite")]
    pub fn fold_sqlite<F>(mut self, fold: F) -> Self
    where
        F: Fn(&tidegate_store::SqliteTransaction<'_>, &[StreamEvent]) -> Result<()>
            + Send
            + Sync
            + 'static,
    {
        self.folds().sqlite = Some(Arc::new(fold));
        self
    }

    /// Folds batches of events into tables of the store's own PostgreSQL database.
    ///
    /// The fold's writes and the ack of the events are committed together or not at all.
    #[cfg(feature = "postgres")]
    pub fn fold_postgres<F, Fut>(mut self, fold: F) -> Self
    where
        F: Fn(tidegate_store::PostgresTransaction, Vec<StreamEvent>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        self.folds().postgres = Some(Arc::new(move |tx, events| Box::pin(fold(tx, events))));
        self
    }

    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    fn folds(&mut self) -> &mut Folds {
        if !matches!(self.code, Code::Fold(_)) {
            self.code = Code::Fold(Folds::default());
        }
        let Code::Fold(folds) = &mut self.code else { unreachable!("it was just set") };
        folds
    }

    fn code(mut self, code: Code) -> Self {
        self.code = code;
        self
    }

    /// Sets the maximum number of retries of an event whose handler fails.
    ///
    /// Defaults to 3, which makes 4 attempts.
    pub fn max_retries(self, retries: u32) -> Self {
        self.with("maxRetries", json!(retries))
    }

    /// Sets whether a stream is blocked when the retries of one of its events are used up.
    ///
    /// Defaults to `true`. With `false`, the event is retried forever.
    pub fn block_on_error(self, block: bool) -> Self {
        self.with("blockOnError", json!(block))
    }

    /// Sets the backoff between the attempts of an event.
    ///
    /// Without a backoff, the event is retried at once.
    pub fn backoff(self, backoff: &Backoff) -> Self {
        self.with("backoff", json!(backoff))
    }

    /// Sets the duration of a lease on a stream without renewal.
    ///
    /// Defaults to 30 s.
    pub fn lease_time(self, time: Duration) -> Self {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.with("leaseMs", json!(ms))
    }

    /// Sets the maximum number of events of a stream that are handled under one claim.
    ///
    /// Defaults to 100.
    pub fn batch_size(self, events: u32) -> Self {
        self.with("batch", json!(events))
    }

    /// Sets the maximum number of consecutive claims of a stream that end without progress. After
    /// that, the stream is blocked.
    ///
    /// Defaults to 10.
    pub fn max_lost_leases(self, leases: u32) -> Self {
        self.with("maxLostLeases", json!(leases))
    }

    /// Sets the number of streams that one engine processes at once.
    ///
    /// Defaults to 10.
    pub fn parallel_streams(mut self, streams: usize) -> Self {
        self.parallel = streams;
        self
    }

    /// Returns the definition for the store and the code for this engine, or all problems of the
    /// definition.
    pub(crate) fn into_served(self) -> Result<ServedReaction, Vec<Problem>> {
        let Self { definition, parallel, code } = self;
        let parsed = Definition::parse(&Value::Object(definition.clone()));
        let mut problems = match &parsed {
            Ok(_) => Vec::new(),
            Err(errors) => errors.0.iter().map(problem).collect(),
        };
        let name = definition.get("name").and_then(Value::as_str).unwrap_or_default();
        let mut wrong = |code, field: &str, message: String| {
            let subject = format!("reaction `{name}`");
            problems.push(Problem { code, subject, field: field.to_owned(), message });
        };
        if name.starts_with('$') {
            let message =
                format!("may not begin with $, which is reserved for Tidegate, got `{name}`");
            wrong(ProblemCode::BadName, "name", message);
        }
        if !(1..=MOST_PARALLEL).contains(&parallel) {
            let message = format!("must be 1 to {MOST_PARALLEL}, got {parallel}");
            wrong(ProblemCode::OutOfRange, "parallelStreams", message);
        }
        if matches!(code, Code::None) {
            let message = "is required: say what is done with events, by `on` or a fold";
            wrong(ProblemCode::MissingField, "handler", message.to_owned());
        }
        match parsed {
            Ok(definition) if problems.is_empty() => {
                Ok(ServedReaction { definition, parallel, code })
            }
            Ok(_) | Err(_) => Err(problems),
        }
    }
}

/// A reaction that an engine runs: its definition and its code.
#[derive(Clone)]
pub(crate) struct ServedReaction {
    pub(crate) definition: Definition,
    parallel: usize,
    code: Code,
}

impl fmt::Debug for ServedReaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedReaction")
            .field("definition", &self.definition)
            .finish_non_exhaustive()
    }
}

fn problem(found: &ReactionProblem) -> Problem {
    use ProblemCode::{BadName, MissingField, OutOfRange, UnknownField, UnknownValue, WrongType};
    let codes = [MissingField, WrongType, OutOfRange, UnknownField, UnknownValue];
    let ReactionProblem { code, subject, field, message } = found.clone();
    let code = codes.into_iter().find(|it| it.as_str() == code).unwrap_or(BadName);
    Problem { code, subject, field, message }
}
