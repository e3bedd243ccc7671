//! Builder of workflows: an async function and its controls.

use std::{fmt, future::Future, marker::PhantomData, ops::RangeInclusive, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use tidegate_core::definition::{Code, DEFAULT_APP, Problem};

use crate::{
    context::Ctx,
    controls::{Batch, Concurrency, append},
    handler::{Handler, ServedWorkflow, Typed},
    reference::WorkflowRef,
    step_error::Result,
};

/// A workflow: an async function of an input, started by events or by a schedule.
///
/// Problems of the definition are reported when the engine starts.
///
/// ```
/// use tidegate::{prelude::*, testing::TestHarness};
///
/// async fn greet(ctx: Ctx, name: String) -> Result<String> {
///     ctx.step("greet", || async { Ok(format!("hello {name}")) }).await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let workflow = Workflow::new("greet", greet)
///     .on_event("user/*")
///     .concurrency(Concurrency::limit(5))
///     .retry(Retry::attempts(3));
/// let (harness, greet) = (TestHarness::new(), workflow.reference());
/// let engine = harness.engine().workflow(workflow).start().await?;
/// assert_eq!(engine.start(&greet, "Ada".to_owned()).await?.output().await?, "hello Ada");
/// # Ok(())
/// # }
/// ```
///
/// `I` is the input of the handler and `O` its output. `S` is the input that one start passes. It
/// equals `I` except in a [batch](Workflow::batch).
#[must_use]
pub struct Workflow<I, O, S = I> {
    definition: Map<String, Value>,
    handler: Arc<dyn Handler>,
    on_failure: Option<Arc<dyn Handler>>,
    also_serves: Option<RangeInclusive<u32>>,
    unreadable: Option<Problem>,
    types: PhantomData<fn(I, S) -> O>,
}

impl<I, O, S> fmt::Debug for Workflow<I, O, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Workflow").field(&self.definition).finish()
    }
}

impl<I, O> Workflow<I, O>
where
    I: DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
{
    /// Creates a workflow of this name.
    ///
    /// If the workflow has no triggers, an event of the same name starts it.
    pub fn new<F, Fut>(name: &str, handler: F) -> Self
    where
        F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O>> + Send + 'static,
    {
        Self::from_definition(json!({ "name": name }), handler)
    }

    /// Creates a workflow from a definition written as data.
    pub fn from_definition<F, Fut>(definition: Value, handler: F) -> Self
    where
        F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O>> + Send + 'static,
    {
        let (definition, unreadable) = read_fields("workflow", definition);
        Self {
            definition,
            handler: Arc::new(Typed::new(handler)),
            on_failure: None,
            also_serves: None,
            unreadable,
            types: PhantomData,
        }
    }

    /// Creates a workflow from a definition written in TOML, with the same fields.
    pub fn from_toml<F, Fut>(definition: &str, handler: F) -> Self
    where
        F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O>> + Send + 'static,
    {
        let (definition, unreadable) = read_toml("workflow", definition);
        let workflow = Self::from_definition(Value::Object(definition), handler);
        Self { unreadable, ..workflow }
    }
}

impl<I, O, S> Workflow<I, O, S> {
    /// Returns a typed reference to the workflow, for starting and calling it.
    ///
    /// ```
    /// use tidegate::{Ctx, Workflow, WorkflowRef};
    ///
    /// let count = Workflow::new("count", async |_: Ctx, text: String| Ok(text.len()));
    /// let reference: WorkflowRef<String, usize> = count.reference();
    /// assert_eq!(reference.name(), "count");
    /// ```
    pub fn reference(&self) -> WorkflowRef<S, O> {
        let text = |field: &str| self.definition.get(field).and_then(Value::as_str);
        let name = text("name").unwrap_or_default();
        WorkflowRef::named(name).app(text("app").unwrap_or(DEFAULT_APP))
    }

    /// Sets the failure handler: it runs once, after a run has failed permanently.
    ///
    /// The failure handler is a run of its own and records its own steps.
    pub fn on_failure<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
    {
        self.on_failure = Some(Arc::new(Typed::<_, I, ()>::new(handler)));
        self.with("onFailure", json!(true))
    }

    fn with(mut self, field: &str, value: Value) -> Self {
        self.definition.insert(field.to_owned(), value);
        self
    }

    /// Appends a trigger.
    fn on(mut self, trigger: Value) -> Self {
        append(self.definition.entry("triggers").or_insert_with(|| json!([])), trigger);
        self
    }

    /// Appends a value to a field that is one value or a list.
    fn and(mut self, field: &str, value: Value) -> Self {
        append(self.definition.entry(field).or_insert(Value::Null), value);
        self
    }

    /// Sets the app that the workflow belongs to.
    pub fn app(self, app: &str) -> Self {
        self.with("app", json!(app))
    }

    /// Declares that this code also continues the runs of these older versions.
    pub fn also_serves(mut self, versions: RangeInclusive<u32>) -> Self {
        self.also_serves = Some(versions);
        self
    }

    /// Starts the workflow on events of this name. A `*` at the end of the name matches any suffix.
    pub fn on_event(self, name: &str) -> Self {
        self.on(json!(name))
    }

    /// Starts the workflow on events with this name for which an expression is true.
    ///
    /// An event for which it cannot be evaluated is rejected for this workflow.
    ///
    /// ```
    /// use serde_json::Value;
    /// use tidegate::prelude::*;
    ///
    /// let review = Workflow::new("review", async |_: Ctx, _: Value| Ok(()))
    ///     .on_event_if("order/paid", "event.data.total > 1000");
    /// ```
    pub fn on_event_if(self, name: &str, condition: &str) -> Self {
        self.on(json!({ "event": name, "if": condition }))
    }

    /// Starts the workflow on a cron schedule in this time zone.
    ///
    /// An occurrence is skipped while the run of an earlier one has not ended.
    pub fn cron(self, cron: &str, time_zone: &str) -> Self {
        self.on(json!({ "cron": cron, "timeZone": time_zone }))
    }

    /// Starts the workflow as [`Workflow::cron`] does, but occurrences may overlap.
    pub fn cron_overlapping(self, cron: &str, time_zone: &str) -> Self {
        self.on(json!({ "cron": cron, "timeZone": time_zone, "onOverlap": "allow" }))
    }

    /// Starts the workflow on a schedule with all its options.
    pub fn schedule(self, schedule: crate::Schedule) -> Self {
        self.on(schedule.into_value())
    }

    crate::controls::on_both!();

    /// Limits the number of concurrent runs.
    ///
    /// Several limits can be combined.
    pub fn concurrency(self, limit: Concurrency) -> Self {
        self.and("concurrency", limit.into_value())
    }
}

impl<E, O> Workflow<Vec<E>, O> {
    /// Collects many events into one run: the handler gets a list of inputs, and each start passes
    /// one.
    pub fn batch(self, batch: Batch) -> Workflow<Vec<E>, O, E> {
        let Self { definition, handler, on_failure, also_serves, unreadable, .. } =
            self.with("batch", batch.into_value());
        let types = PhantomData;
        Workflow { definition, handler, on_failure, also_serves, unreadable, types }
    }
}

impl<I, O, S> From<Workflow<I, O, S>> for ServedWorkflow {
    fn from(workflow: Workflow<I, O, S>) -> Self {
        Self {
            definition: Value::Object(workflow.definition),
            handler: workflow.handler,
            unreadable: workflow.unreadable,
            on_failure: workflow.on_failure,
            also_serves: workflow.also_serves,
            key_function: None,
        }
    }
}

/// Returns the fields of a definition, or the problem because of which they cannot be read. The
/// problem is reported when the engine starts, like all other problems.
pub(crate) fn read_fields(what: &str, data: Value) -> (Map<String, Value>, Option<Problem>) {
    match data {
        Value::Object(fields) => (fields, None),
        other => (Map::new(), Some(unreadable(what, format!("must be an object, got {other}")))),
    }
}

/// Reads a definition as [`read_fields`] does, from TOML.
pub(crate) fn read_toml(what: &str, text: &str) -> (Map<String, Value>, Option<Problem>) {
    match toml::from_str(text) {
        Ok(fields) => (fields, None),
        Err(error) => (Map::new(), Some(unreadable(what, format!("cannot be read: {error}")))),
    }
}

fn unreadable(what: &str, message: String) -> Problem {
    let (subject, field) = (format!("a {what}"), "definition".to_owned());
    Problem { code: Code::WrongType, subject, field, message }
}
