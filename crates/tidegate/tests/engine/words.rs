//! The words that stories are told in.

use std::{
    collections::BTreeMap,
    fmt::{self, Display, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tidegate::{
    Ctx, Engine, EngineBuilder, Result, RunId, StepError, Timer, Workflow,
    core::{
        flow::Verdict,
        row::{Row, Step},
    },
    testing::TestHarness,
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

/// Posts one event that makes one run.
pub(crate) async fn start(engine: &Engine, name: &str, data: Value) -> RunId {
    verdict(engine, name, data).await.run().expect("it makes a run")
}

/// Posts one event that concerns one workflow, and says what became of it.
pub(crate) async fn verdict(engine: &Engine, name: &str, data: Value) -> Verdict {
    let posted = engine.send(name, data).await.unwrap();
    posted.runs.into_iter().next().expect("it concerns a workflow").verdict
}

/// Posts events `{n}` in one request, counted from 0.
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

/// An engine that shares the store with others: it beats and looks around.
pub(crate) fn sharing(harness: &TestHarness) -> EngineBuilder {
    harness.engine().lease_ttl(secs(30)).poll_interval(secs(1))
}

/// The states of all runs of a workflow, oldest first.
pub(crate) async fn states(harness: &TestHarness, workflow: &str) -> Vec<&'static str> {
    harness.runs(workflow).await.iter().map(|run| run.state).collect()
}

/// How many events of this name are recorded.
pub(crate) async fn recorded(harness: &TestHarness, name: &str) -> usize {
    let rows = harness.store().dump().await.unwrap();
    rows.iter().filter(|row| matches!(row, Row::Event(event) if event.name == name)).count()
}

/// What ran when, as the code that ran has noted it.
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

    /// Notes that something happens now.
    pub(crate) fn note(&self, line: impl Display) {
        let now = self.timer.elapsed();
        self.notes().lines.push((now, line.to_string()));
    }

    /// Is busy for a time, without letting go of the worker.
    pub(crate) async fn spend(&self, time: Duration) {
        self.timer.sleep_until(self.timer.elapsed() + time).await;
    }

    /// Notes it, and is inside a scope for a time.
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

    /// What was noted, in order; the journal is empty from then on.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.notes().lines).into_iter().map(|(_, line)| line).collect()
    }

    /// As [`Journal::take`], with the time in milliseconds since the harness began.
    pub(crate) fn take_times(&self) -> Vec<(u128, String)> {
        let lines = std::mem::take(&mut self.notes().lines);
        lines.into_iter().map(|(at, line)| (at.as_millis(), line)).collect()
    }

    /// When things were noted, in milliseconds since the harness began.
    pub(crate) fn take_moments(&self) -> Vec<u128> {
        self.take_times().into_iter().map(|(at, _)| at).collect()
    }

    /// How many were in a scope at the most.
    pub(crate) fn most(&self, scope: &str) -> usize {
        self.notes().most.get(scope).copied().unwrap_or_default()
    }

    /// How many are in a scope.
    pub(crate) fn inside(&self, scope: &str) -> usize {
        self.notes().inside.get(scope).copied().unwrap_or_default()
    }
}

/// Somebody is inside, also if the code is dropped where it is.
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

/// The `n` of an input.
pub(crate) fn n(input: &Value) -> String {
    input["n"].to_string()
}

/// A workflow whose runs note their `n` and work for a time, in the scope of its name.
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

/// How a run failed that must have failed.
pub(crate) async fn failed(engine: &Engine, run: RunId) -> StepError {
    let (live, ended) = engine.look_up(run).await.unwrap();
    assert!(ended.is_some(), "{run} has not ended: {live:?}");
    engine.output::<Value>(run).await.unwrap().unwrap_err()
}

/// The state that a run is in.
pub(crate) async fn state(harness: &TestHarness, workflow: &str, run: RunId) -> &'static str {
    let runs = harness.runs(workflow).await;
    runs.iter().find(|view| view.id == run).map_or("none", |view| view.state)
}

/// What a run has on record.
pub(crate) async fn steps(harness: &TestHarness, run: RunId) -> Vec<Step> {
    let rows = harness.store().dump().await.unwrap();
    let step = |row| if let Row::Step(step) = row { Some(step) } else { None };
    let steps = rows.into_iter().filter_map(step);
    let mut steps: Vec<Step> = steps.filter(|step| step.run == run.seq).collect();
    steps.sort_by_key(|step| step.seq);
    steps
}

/// The ids of these, in the order of their records.
pub(crate) async fn recorded_steps(harness: &TestHarness, run: RunId) -> Vec<String> {
    steps(harness, run).await.into_iter().map(|step| step.id).collect()
}

/// What handlers did, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks(Arc<Mutex<Vec<String>>>);

impl Marks {
    /// Writes something down; how often it has been written by now.
    pub(crate) fn mark(&self, what: impl Into<String>) -> usize {
        let what = what.into();
        let mut marks = self.0.lock().unwrap();
        marks.push(what.clone());
        marks.iter().filter(|mark| **mark == what).count()
    }

    /// All of it.
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// How often this was written.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.all().iter().filter(|mark| *mark == what).count()
    }
}

/// A door that handlers wait at until the story opens it.
#[derive(Clone, Debug)]
pub(crate) struct Door(watch::Sender<bool>);

impl Door {
    pub(crate) fn closed() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }

    /// Waits until it is open.
    pub(crate) async fn pass(&self) {
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

/// Log lines at WARN.
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
    /// Listens to this thread for as long as the guard lives.
    pub(crate) fn listen() -> (Self, DefaultGuard) {
        let warnings = Self::default();
        let subscriber = Registry::default().with(warnings.clone());
        (warnings, tracing::subscriber::set_default(subscriber))
    }

    /// What was logged since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// How many lines hold this text.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|line| line.contains(text)).count()
    }
}
