//! The words that stories are told in.

use serde_json::Value;
use tidegate::{Engine, RunId};

/// Posts one event that makes one run.
pub(crate) async fn start(engine: &Engine, name: &str, data: Value) -> RunId {
    let posted = engine.send(name, data).await.unwrap();
    posted.runs[0].verdict.run().expect("it makes a run")
}
