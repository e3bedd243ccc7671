//! The words that stories are told in.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tidegate::{
    Engine, Fault, RunId,
    core::row::{Row, Step},
    testing::Lab,
};
use tokio::sync::watch;

/// Posts one event that makes one run.
pub(crate) async fn start(engine: &Engine, name: &str, data: Value) -> RunId {
    let posted = engine.send(name, data).await.unwrap();
    posted.runs[0].verdict.run().expect("it makes a run")
}

/// How a run failed that must have failed.
pub(crate) async fn failed(engine: &Engine, run: RunId) -> Fault {
    let (live, ended) = engine.look_up(run).await.unwrap();
    assert!(ended.is_some(), "{run} has not ended: {live:?}");
    engine.output::<Value>(run).await.unwrap().unwrap_err()
}

/// The state that a run is in.
pub(crate) async fn state(lab: &Lab, workflow: &str, run: RunId) -> &'static str {
    let runs = lab.runs(workflow).await;
    runs.iter().find(|view| view.id == run).map_or("none", |view| view.state)
}

/// What a run has on record.
pub(crate) async fn steps(lab: &Lab, run: RunId) -> Vec<Step> {
    let rows = lab.store().dump().await.unwrap();
    let steps = rows.into_iter().filter_map(|row| match row {
        Row::Step(step) if step.run == run.seq => Some(step),
        _ => None,
    });
    let mut steps: Vec<Step> = steps.collect();
    steps.sort_by_key(|step| step.seq);
    steps
}

/// The ids of these, in the order of their records.
pub(crate) async fn recorded(lab: &Lab, run: RunId) -> Vec<String> {
    steps(lab, run).await.into_iter().map(|step| step.id).collect()
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

    pub(crate) fn close(&self) {
        self.0.send_replace(false);
    }

    /// Waits until it is open.
    pub(crate) async fn pass(&self) {
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}
