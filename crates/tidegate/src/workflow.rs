//! Workflows as a program defines them: an async function and what controls it.

use std::{fmt, future::Future, marker::PhantomData, ops::RangeInclusive, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use tidegate_core::definition::{Code, Problem};

use crate::{
    context::Ctx,
    controls::{Batch, Concurrency},
    handler::{Handler, ServedWorkflow, Typed},
    step_error::Result,
};

/// A workflow: an async function of an input, started by events or by the clock.
///
/// Whatever is wrong with its definition is said when the engine is built.
#[must_use]
pub struct Workflow<I, O> {
    definition: Map<String, Value>,
    handler: Arc<dyn Handler>,
    on_failure: Option<Arc<dyn Handler>>,
    also_serves: Option<RangeInclusive<u32>>,
    unreadable: Option<Problem>,
    types: PhantomData<fn(I) -> O>,
}

impl<I, O> fmt::Debug for Workflow<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Workflow").field(&self.definition).finish()
    }
}

impl<I, O> Workflow<I, O>
where
    I: DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
{
    /// A workflow of this name. Without triggers an event of the same name starts it.
    pub fn new<F, Fut>(name: &str, handler: F) -> Self
    where
        F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O>> + Send + 'static,
    {
        Self::from_definition(json!({ "name": name }), handler)
    }

    /// A workflow whose definition is written as data.
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

    /// A workflow whose definition is written in TOML, with the same fields.
    pub fn from_toml<F, Fut>(definition: &str, handler: F) -> Self
    where
        F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O>> + Send + 'static,
    {
        let (definition, unreadable) = read_toml("workflow", definition);
        let workflow = Self::from_definition(Value::Object(definition), handler);
        Self { unreadable, ..workflow }
    }

    /// What runs, once, after a run has failed for good. It has steps of its own.
    pub fn on_failure<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        self.on_failure = Some(Arc::new(Typed::<_, I, ()>::new(handler)));
        self.with("onFailure", json!(true))
    }
}

impl<I, O> Workflow<I, O> {
    fn with(mut self, field: &str, value: Value) -> Self {
        self.definition.insert(field.to_owned(), value);
        self
    }

    /// Adds to a field that may be given several times.
    fn and(mut self, field: &str, value: Value) -> Self {
        let values = self.definition.entry(field).or_insert_with(|| json!([]));
        if !values.is_array() {
            *values = json!([values.take()]);
        }
        if let Value::Array(values) = values {
            values.push(value);
        }
        self
    }

    /// The app that it belongs to.
    pub fn app(self, app: &str) -> Self {
        self.with("app", json!(app))
    }

    /// The same code continues runs of these older versions.
    pub fn also_serves(mut self, versions: RangeInclusive<u32>) -> Self {
        self.also_serves = Some(versions);
        self
    }

    /// Events of this name start it; a star at the end stands for any rest.
    pub fn on_event(self, name: &str) -> Self {
        self.and("triggers", json!(name))
    }

    /// The clock starts it, in this time zone. An occurrence is skipped while the last one runs.
    pub fn cron(self, cron: &str, time_zone: &str) -> Self {
        self.and("triggers", json!({ "cron": cron, "timeZone": time_zone }))
    }

    /// As [`Workflow::cron`], and occurrences may run side by side.
    pub fn cron_overlapping(self, cron: &str, time_zone: &str) -> Self {
        self.and("triggers", json!({ "cron": cron, "timeZone": time_zone, "onOverlap": "allow" }))
    }

    /// The clock starts it, with all that can be said about when.
    pub fn schedule(self, schedule: crate::Schedule) -> Self {
        self.and("triggers", schedule.into_value())
    }

    crate::controls::on_both!();

    /// How many runs are inside at once. Several limits can stand side by side.
    pub fn concurrency(self, limit: Concurrency) -> Self {
        self.and("concurrency", limit.into_value())
    }
}

impl<E, O> Workflow<Vec<E>, O> {
    /// Many events in one run: the handler takes all of them.
    pub fn batch(self, batch: Batch) -> Self {
        self.with("batch", batch.into_value())
    }
}

impl<I, O> From<Workflow<I, O>> for ServedWorkflow {
    fn from(workflow: Workflow<I, O>) -> Self {
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

/// The fields of a definition, or what keeps them from being read: that is said when the engine
/// is built, like everything else that is wrong.
pub(crate) fn read_fields(what: &str, data: Value) -> (Map<String, Value>, Option<Problem>) {
    match data {
        Value::Object(fields) => (fields, None),
        other => (Map::new(), Some(unreadable(what, format!("must be an object, got {other}")))),
    }
}

/// As [`read_fields`], of a definition in TOML.
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
