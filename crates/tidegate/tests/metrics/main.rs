//! The names and labels of all metrics are frozen in a file, because dashboards and alerts rely on
//! them.
//!
//! The test executes the workload of `tests/old_databases`, which uses every feature. Metrics that
//! it does not record are found by their names in the source, and listed without labels.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../old_databases/code.rs"]
mod code;
#[path = "../old_databases/inputs.rs"]
#[allow(dead_code, reason = "the tests of old databases use all of it")]
mod inputs;
#[path = "../old_databases/limits.rs"]
#[allow(dead_code, reason = "the tests of old databases use all of it")]
mod limits;
#[path = "../old_databases/make.rs"]
mod make;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use expect_test::expect_file;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tidegate::testing::{TestHarness, VirtualClock};
use tidegate_core::{reaction::StreamSelection, time::Timestamp};
use tidegate_store::MemoryStore;

use self::{
    code::{Account, Life, Moved, serve},
    make::{BEGINS, fill},
};

/// Labels whose values are names that users give.
const FREE: [&str; 2] = ["workflow", "reaction"];

/// Values of each label, by name and kind of the metric.
type Labels = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Recorder that notes the names and labels of all metrics.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Labels>>);

impl Notes {
    fn note(&self, kind: &str, key: &Key) {
        let mut notes = self.0.lock().unwrap();
        let labels = notes.entry(format!("{} {kind}", key.name())).or_default();
        for label in key.labels() {
            let values = labels.entry(label.key().to_owned()).or_default();
            let free = FREE.contains(&label.key());
            values.insert(if free { "*".to_owned() } else { label.value().to_owned() });
        }
    }
}

impl Recorder for Notes {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.note("counter", key);
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.note("gauge", key);
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.note("histogram", key);
        Histogram::noop()
    }
}

/// Executes the workload: fills a store, crashes, takes over with another engine, and finishes the
/// runs.
async fn work() {
    let clock = Arc::new(VirtualClock::new(Timestamp::parse_rfc3339(BEGINS).unwrap()));
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let harness = TestHarness::on(store.clone(), clock);
    fill(&harness, &*store).await;
    let engine = harness.engine().poll_interval(Duration::from_secs(60));
    let engine = serve(engine, Life::Opened).start().await.unwrap();
    harness.advance(Duration::from_secs(180)).await;
    engine.unblock("fragile", StreamSelection::All).await.unwrap();
    let stream = engine.stream::<Account>("account-1").expecting(0);
    stream.act(|_| Ok::<_, ()>(vec![Moved::Deposited { amount: 1 }])).await.unwrap_err();
    harness.advance(Duration::from_secs(60)).await;
    engine.shutdown().await;
}

/// Returns all metric names in the source of the crates.
fn names() -> BTreeSet<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders = vec![crates.join("tidegate/src"), crates.join("tidegate-server/src")];
    let mut names = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap_or_default();
            let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            for mark in ["\"tidegate_", "# TYPE tidegate_"] {
                for rest in shipped.split(mark).skip(1) {
                    let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_');
                    names.insert(format!("tidegate_{}", &rest[..end.unwrap_or(rest.len())]));
                }
            }
        }
    }
    names
}

#[tokio::test]
async fn metrics_and_labels_are_the_agreed_ones() {
    let notes = Notes::default();
    assert!(
        metrics::set_global_recorder(notes.clone()).is_ok(),
        "another recorder is installed in this process"
    );
    work().await;
    let notes = notes.0.lock().unwrap().clone();
    let mut lines: Vec<String> = notes
        .iter()
        .map(|(metric, labels)| {
            let labels = labels.iter().map(|(label, values)| {
                let values: Vec<_> = values.iter().map(String::as_str).collect();
                format!(" {label}={}", values.join("|"))
            });
            format!("{metric}{}\n", labels.collect::<Vec<_>>().concat())
        })
        .collect();
    let seen = |name: &String| notes.keys().any(|it| it.split(' ').next() == Some(name));
    lines.extend(names().iter().filter(|name| !seen(name)).map(|name| format!("{name} unseen\n")));
    lines.sort();
    expect_file!["metrics.txt"].assert_eq(&lines.concat());
}
