//! Helpers that the stories share: sending events, waiting, and journals.

use std::{
    collections::BTreeMap,
    fmt::{self, Display, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tidegate::{
    Ctx, Engine, EngineBuilder, Result, RunId, StepError, Timer, Workflow, testing::TestHarness,
};
use tidegate_core::{
    flow::Verdict,
    row::{Row, Step},
};
use tokio::sync::watch;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    subscriber::DefaultGuard,
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt},
    registry::Registry,
};

/// Sends one event that creates one run, and returns the run's id.
pub(crate) async fn start(engine: &Engine, name: &str, data: Value) -> RunId {
    verdict(engine, name, data).await.run().expect("the event creates a run")
}

/// Sends one event that triggers one workflow, and returns the verdict.
pub(crate) async fn verdict(engine: &Engine, name: &str, data: Value) -> Verdict {
    let posted = engine.send(name, data).await.unwrap();
    posted.runs.into_iter().next().expect("the event triggers a workflow").verdict
}

/// Sends `count` events with the data `{"n": 0}`, `{"n": 1}` and so on, in one call.
pub(crate) async fn burst(engine: &Engine, name: &str, count: usize) {
    let events = (0..count).map(|n| tidegate::new_event(name, json!({ "n": n })).unwrap());
    engine.send_all(events.collect()).await.unwrap();
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Returns a builder for an engine that sends heartbeats and polls, because it shares the store
/// with other engines.
pub(crate) fn sharing(harness: &TestHarness) -> EngineBuilder {
    harness.engine().lease_ttl(secs(30)).poll_interval(secs(1))
}

/// Returns the states of all runs of a workflow, oldest first.
pub(crate) async fn states(harness: &TestHarness, workflow: &str) -> Vec<&'static str> {
    harness.runs(workflow).await.iter().map(|run| run.state).collect()
}

/// Returns the number of recorded events of this name.
pub(crate) async fn recorded(harness: &TestHarness, name: &str) -> usize {
    let rows = harness.store().dump().await.unwrap();
    rows.iter().filter(|row| matches!(row, Row::Event(event) if event.name == name)).count()
}

/// Journal that handlers write to, with the time of each entry.
#[derive(Clone)]
pub(crate) struct Journal {
    notes: Arc<Mutex<Notes>>,
    timer: Arc<dyn Timer>,
}

#[derive(Default)]
struct Notes {
    lines: Vec<(Duration, String)>,
    inside: BTreeMap<String, usize>,
    most: BTreeMap<String, usize>,
}

impl Journal {
    pub(crate) fn new(harness: &TestHarness) -> Self {
        Self { notes: Arc::default(), timer: harness.timer() }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes an entry with the current time.
    pub(crate) fn note(&self, line: impl Display) {
        let now = self.timer.elapsed();
        self.notes().lines.push((now, line.to_string()));
    }

    /// Waits for a time on the virtual clock, which occupies the worker.
    pub(crate) async fn spend(&self, time: Duration) {
        self.timer.sleep_until(self.timer.elapsed() + time).await;
    }

    /// Writes an entry, and stays inside a named scope for a time.
    pub(crate) async fn work(&self, scope: &str, line: impl Display, time: Duration) {
        self.note(line);
        {
            let mut notes = self.notes();
            let inside = notes.inside.entry(scope.to_owned()).or_default();
            *inside += 1;
            let inside = *inside;
            let most = notes.most.entry(scope.to_owned()).or_default();
            *most = inside.max(*most);
        }
        let _inside = Inside { journal: self, scope };
        self.spend(time).await;
    }

    /// Returns the entries, in order, and clears the journal.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.notes().lines).into_iter().map(|(_, line)| line).collect()
    }

    /// Returns the entries as [`Journal::take`] does, with their times in milliseconds since the
    /// start of the harness.
    pub(crate) fn take_times(&self) -> Vec<(u128, String)> {
        let lines = std::mem::take(&mut self.notes().lines);
        lines.into_iter().map(|(at, line)| (at.as_millis(), line)).collect()
    }

    /// Returns the times of the entries in milliseconds since the start of the harness, and clears
    /// the journal.
    pub(crate) fn take_moments(&self) -> Vec<u128> {
        self.take_times().into_iter().map(|(at, _)| at).collect()
    }

    /// Returns the largest number of calls that were inside a scope at once.
    pub(crate) fn most(&self, scope: &str) -> usize {
        self.notes().most.get(scope).copied().unwrap_or_default()
    }

    /// Returns the number of calls that are inside a scope now.
    pub(crate) fn inside(&self, scope: &str) -> usize {
        self.notes().inside.get(scope).copied().unwrap_or_default()
    }
}

/// Guard of a scope. Leaves the scope on drop, also if the handler is dropped.
struct Inside<'a> {
    journal: &'a Journal,
    scope: &'a str,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if let Some(inside) = self.journal.notes().inside.get_mut(self.scope) {
            *inside -= 1;
        }
    }
}

/// Returns the field `n` of an input as text.
pub(crate) fn n(input: &Value) -> String {
    input["n"].to_string()
}

/// A workflow whose runs record their field `n` and work for a time, inside the scope with the
/// workflow's name.
pub(crate) fn work(journal: &Journal, name: &str, time: Duration) -> Workflow<Value, Value> {
    let (journal, scope) = (journal.clone(), name.to_owned());
    Workflow::new(name, move |ctx: Ctx, input: Value| {
        let (journal, scope) = (journal.clone(), scope.clone());
        async move { worked(&ctx, &journal, &scope, input, time).await }
    })
}

async fn worked(
    ctx: &Ctx,
    journal: &Journal,
    scope: &str,
    input: Value,
    time: Duration,
) -> Result<Value> {
    let step = ctx.step("work", || async {
        journal.work(scope, n(&input), time).await;
        Ok(())
    });
    step.await?;
    Ok(input)
}

/// Returns the error of a run that must have failed.
pub(crate) async fn failed(engine: &Engine, run: RunId) -> StepError {
    let (live, ended) = engine.look_up(run).await.unwrap();
    assert!(ended.is_some(), "{run} has not ended: {live:?}");
    engine.output::<Value>(run).await.unwrap().unwrap_err()
}

/// Returns the state of a run.
pub(crate) async fn state(harness: &TestHarness, workflow: &str, run: RunId) -> &'static str {
    let runs = harness.runs(workflow).await;
    runs.iter().find(|view| view.id == run).map_or("none", |view| view.state)
}

/// Returns the recorded steps of a run.
pub(crate) async fn steps(harness: &TestHarness, run: RunId) -> Vec<Step> {
    let rows = harness.store().dump().await.unwrap();
    let step = |row| if let Row::Step(step) = row { Some(step) } else { None };
    let steps = rows.into_iter().filter_map(step);
    let mut steps: Vec<Step> = steps.filter(|step| step.run == run.seq).collect();
    steps.sort_by_key(|step| step.seq);
    steps
}

/// Returns the ids of the recorded steps, in the order in which they were recorded.
pub(crate) async fn recorded_steps(harness: &TestHarness, run: RunId) -> Vec<String> {
    steps(harness, run).await.into_iter().map(|step| step.id).collect()
}

/// List of marks that handlers make, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks(Arc<Mutex<Vec<String>>>);

impl Marks {
    /// Adds a mark, and returns the number of equal marks so far.
    pub(crate) fn mark(&self, what: impl Into<String>) -> usize {
        let what = what.into();
        let mut marks = self.0.lock().unwrap();
        marks.push(what.clone());
        marks.iter().filter(|mark| **mark == what).count()
    }

    /// Returns all marks.
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Returns the number of marks equal to `what`.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.all().iter().filter(|mark| *mark == what).count()
    }
}

/// A door at which handlers wait until the story opens it.
#[derive(Clone, Debug)]
pub(crate) struct Door(watch::Sender<bool>);

impl Door {
    pub(crate) fn closed() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }

    /// Waits until the door is open.
    pub(crate) async fn pass(&self) {
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

/// Collected log lines of level WARN.
#[derive(Clone, Default)]
pub(crate) struct Warnings(Arc<Mutex<Vec<String>>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl<S: Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() == Level::WARN {
            let mut fields = Fields(String::new());
            event.record(&mut fields);
            self.0.lock().unwrap().push(fields.0);
        }
    }
}

impl Warnings {
    /// Collects the log lines of this thread until the guard is dropped.
    pub(crate) fn listen() -> (Self, DefaultGuard) {
        let warnings = Self::default();
        let subscriber = Registry::default().with(warnings.clone());
        (warnings, tracing::subscriber::set_default(subscriber))
    }

    /// Returns the lines logged since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// Returns the number of lines that contain this text.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|line| line.contains(text)).count()
    }
}
