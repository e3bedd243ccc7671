//! Metrics recorder: counters, gauges and histograms in the text format of Prometheus.
//!
//! This is written by hand. The console needs sums and percentiles by workspace, which
//! `metrics-exporter-prometheus` cannot return, and the histograms of that crate keep every value
//! until the next scrape. `metrics-util` alone would save 35 lines at the cost of eight crates,
//! among them a second `rand` and a second `hashbrown`.

mod waits;

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

pub(crate) use self::waits::Waits;

/// Upper bounds of the histogram buckets in seconds: from half a millisecond to a day.
const BOUNDS: [f64; 20] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 300.0, 600.0, 3_600.0, 86_400.0,
];

/// Counters that are exported from the start with the value 0, even before their first increment.
const FROM_THE_START: [&str; 4] = [
    "tidegate_stream_commits_total",
    "tidegate_stream_conflicts_total",
    "tidegate_lease_losses_total",
    "tidegate_takeovers_total",
];

/// Name of the histogram of the time that runs wait for their start.
const START_DELAY: &str = "tidegate_start_delay_seconds";

static METRICS: LazyLock<Metrics> = LazyLock::new(Metrics::default);

/// Installs the recorder.
pub(crate) fn install() {
    // Only a second call can fail: then the recorder is already installed.
    if metrics::set_global_recorder(&*METRICS).is_ok() {
        for name in FROM_THE_START {
            metrics::counter!(name).absolute(0);
        }
    }
}

/// Returns all metrics in the text format of Prometheus.
pub(crate) fn text() -> String {
    METRICS.0.read().unwrap_or_else(PoisonError::into_inner).to_string()
}

/// Counts of one workspace since this process started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done {
    pub(crate) started: u64,
    pub(crate) ended: u64,
    /// Histogram of the time that runs waited for their start.
    pub(crate) waits: Waits,
}

impl Done {
    /// Returns the difference to an earlier snapshot.
    pub(crate) fn since(&self, then: &Self) -> Self {
        let waits = self.waits.since(&then.waits);
        let started = self.started.saturating_sub(then.started);
        Self { started, ended: self.ended.saturating_sub(then.ended), waits }
    }
}

/// Returns the label of a workspace, with which the labels of its metrics begin.
fn of_workspace(workspace: &str) -> String {
    format!("workspace=\"{}\",", escaped(workspace))
}

/// Returns the counts of a workspace in this process.
pub(crate) fn done(workspace: &str) -> Done {
    done_of(&METRICS.0.read().unwrap_or_else(PoisonError::into_inner), workspace)
}

fn done_of(families: &Families, workspace: &str) -> Done {
    let of = of_workspace(workspace);
    let sum = |name| -> u64 {
        let all = families.counters.get(name).into_iter().flatten();
        all.filter(|(labels, _)| labels.starts_with(&of))
            .map(|(_, count)| count.load(Ordering::Relaxed))
            .sum()
    };
    let (started, ended) = (sum("tidegate_starts_total"), sum("tidegate_ends_total"));
    let waits = families.waits.get(&of).map(|it| lock(it).clone()).unwrap_or_default();
    Done { started, ended, waits }
}

fn lock(waits: &Mutex<Waits>) -> MutexGuard<'_, Waits> {
    waits.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The recorder. Its handles are indexed by name, then by labels. The macros look up a handle at
/// each increment.
#[derive(Default)]
struct Metrics(RwLock<Families>);

#[derive(Default)]
struct Families {
    counters: Family<AtomicU64>,
    /// Float values, stored as bits.
    gauges: Family<AtomicU64>,
    histograms: Family<Buckets>,
    /// Waiting times by workspace label. A histogram that is fine enough for percentiles would be
    /// too large per workflow.
    waits: BTreeMap<String, Arc<Mutex<Waits>>>,
}

type Family<T> = BTreeMap<String, BTreeMap<String, Arc<T>>>;

impl Metrics {
    /// Returns the handle for a name and labels, created on first use.
    fn handle<T: Default>(
        &self,
        key: &Key,
        read: impl FnOnce(&Families) -> &Family<T>,
        write: impl FnOnce(&mut Families) -> &mut Family<T>,
    ) -> Arc<T> {
        let labels = labels(key);
        let families = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = read(&families).get(key.name()).and_then(|all| all.get(&labels)) {
            return handle.clone();
        }
        drop(families);
        let mut families = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let all = write(&mut families).entry(key.name().to_owned()).or_default();
        all.entry(labels).or_default().clone()
    }

    /// Returns the waiting times of a workspace, created on first use.
    fn waits(&self, of: String) -> Arc<Mutex<Waits>> {
        let families = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(waits) = families.waits.get(&of) {
            return waits.clone();
        }
        drop(families);
        let mut families = self.0.write().unwrap_or_else(PoisonError::into_inner);
        families.waits.entry(of).or_default().clone()
    }
}

impl Recorder for Metrics {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.handle(key, |it| &it.counters, |it| &mut it.counters))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.handle(key, |it| &it.gauges, |it| &mut it.gauges))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let buckets = self.handle(key, |it| &it.histograms, |it| &mut it.histograms);
        let workspace = key.labels().find(|label| label.key() == "workspace");
        match workspace.filter(|_| key.name() == START_DELAY) {
            Some(workspace) => {
                let waits = self.waits(of_workspace(workspace.value()));
                Histogram::from_arc(Arc::new(Delay { buckets, waits }))
            }
            None => Histogram::from_arc(buckets),
        }
    }
}

/// Start delay of a run. It is recorded in the histogram of its workflow and in that of its
/// workspace.
struct Delay {
    buckets: Arc<Buckets>,
    waits: Arc<Mutex<Waits>>,
}

impl HistogramFn for Delay {
    fn record(&self, value: f64) {
        self.buckets.record(value);
        lock(&self.waits).record(value);
    }
}

/// Number of values in each bucket, not cumulative.
#[derive(Default)]
struct Buckets {
    counts: [AtomicU64; BOUNDS.len() + 1],
    /// Sum of the values, a float stored as bits.
    sum: AtomicU64,
}

impl HistogramFn for Buckets {
    fn record(&self, value: f64) {
        let bucket = BOUNDS.iter().position(|bound| value <= *bound).unwrap_or(BOUNDS.len());
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        let add = |bits| Some((f64::from_bits(bits) + value).to_bits());
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

/// Returns the labels in the text format, without the braces.
fn labels(key: &Key) -> String {
    let mut text = String::new();
    for label in key.labels() {
        let comma = if text.is_empty() { "" } else { "," };
        // The result is ignored: writing to a string does not fail.
        let _ = write!(text, "{comma}{}=\"{}\"", label.key(), escaped(label.value()));
    }
    text
}

/// Escapes the value of a label for use in quotes.
pub(crate) fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

impl fmt::Display for Families {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let braced = |labels: &str| {
            if labels.is_empty() { String::new() } else { format!("{{{labels}}}") }
        };
        for (name, all) in &self.counters {
            writeln!(f, "# TYPE {name} counter")?;
            for (labels, count) in all {
                writeln!(f, "{name}{} {}", braced(labels), count.load(Ordering::Relaxed))?;
            }
        }
        for (name, all) in &self.gauges {
            writeln!(f, "# TYPE {name} gauge")?;
            for (labels, bits) in all {
                let value = f64::from_bits(bits.load(Ordering::Relaxed));
                writeln!(f, "{name}{} {value}", braced(labels))?;
            }
        }
        for (name, all) in &self.histograms {
            writeln!(f, "# TYPE {name} histogram")?;
            for (labels, buckets) in all {
                let comma = if labels.is_empty() { "" } else { "," };
                let mut count = 0;
                let bounds = BOUNDS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
                for (bound, n) in bounds.zip(&buckets.counts) {
                    count += n.load(Ordering::Relaxed);
                    writeln!(f, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {count}")?;
                }
                let sum = f64::from_bits(buckets.sum.load(Ordering::Relaxed));
                writeln!(f, "{name}_sum{} {sum}", braced(labels))?;
                writeln!(f, "{name}_count{} {count}", braced(labels))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use metrics::{Key, Label, Level, Metadata, Recorder};

    use super::{Metrics, START_DELAY, done_of};

    #[test]
    fn waits_are_those_of_their_workspace() {
        let (recorder, from) = (Metrics::default(), Metadata::new("", Level::INFO, None));
        for (workspace, workflow, seconds) in
            [("a", "x", 1200.0), ("a", "y", 1200.0), ("b", "x", 3.0)]
        {
            let labels = vec![Label::new("workspace", workspace), Label::new("workflow", workflow)];
            let delay = recorder.register_histogram(&Key::from_parts(START_DELAY, labels), &from);
            delay.record(seconds);
        }
        let families = recorder.0.read().unwrap();
        for (workspace, seconds) in [("a", Some(1200.0)), ("b", Some(3.0)), ("c", None)] {
            assert_eq!(done_of(&families, workspace).waits.percentile(500), seconds, "{workspace}");
        }
        let line = r#"tidegate_start_delay_seconds_count{workspace="a",workflow="x"} 1"#;
        assert!(families.to_string().lines().any(|it| it == line), "{families}");
    }

    #[test]
    fn what_is_kept_is_told_as_prometheus_reads_it() {
        let (recorder, from) = (Metrics::default(), Metadata::new("", Level::INFO, None));
        let odd = Key::from_parts("starts_total", vec![Label::new("workflow", "a\"\\\nb")]);
        recorder.register_counter(&odd, &from).increment(2);
        recorder.register_counter(&odd, &from).increment(1);
        recorder.register_gauge(&Key::from_name("driven"), &from).set(1.5);
        let took = recorder.register_histogram(&Key::from_name("took"), &from);
        for value in [0.0005, 0.3, 100_000.0] {
            took.record(value);
        }
        let text = recorder.0.read().unwrap().to_string();
        for line in [
            "# TYPE starts_total counter",
            r#"starts_total{workflow="a\"\\\nb"} 3"#,
            "driven 1.5",
            r#"took_bucket{le="0.0005"} 1"#,
            r#"took_bucket{le="0.25"} 1"#,
            r#"took_bucket{le="0.5"} 2"#,
            r#"took_bucket{le="86400"} 2"#,
            r#"took_bucket{le="+Inf"} 3"#,
            "took_sum 100000.3005",
            "took_count 3",
        ] {
            assert!(
                text.lines().any(|it| it == line),
                "the metrics do not have the line {line}:\n{text}"
            );
        }
    }
}
