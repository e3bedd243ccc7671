//! What the engine counts and measures, kept for whoever scrapes it.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    sync::{
        Arc, LazyLock, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

/// Upper bounds of histograms: from the hand-off of a run to a wait of days.
const BOUNDS: [f64; 20] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 300.0, 600.0, 3_600.0, 86_400.0,
];

/// Counters that are there from the start: what has never happened is 0, and not unknown.
const FROM_THE_START: [&str; 4] = [
    "tidegate_stream_commits_total",
    "tidegate_stream_conflicts_total",
    "tidegate_lease_losses_total",
    "tidegate_takeovers_total",
];

static KEPT: LazyLock<Kept> = LazyLock::new(Kept::default);

/// Begins to keep what is counted.
pub(crate) fn install() {
    // Only a second call fails, and then it is installed.
    if metrics::set_global_recorder(&*KEPT).is_ok() {
        for name in FROM_THE_START {
            metrics::counter!(name).absolute(0);
        }
    }
}

/// All of it, as Prometheus reads it.
pub(crate) fn text() -> String {
    KEPT.0.read().unwrap_or_else(PoisonError::into_inner).to_string()
}

/// What a workspace has done in this process since it began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done {
    pub(crate) started: u64,
    pub(crate) ended: u64,
    /// Starts by how long they were waited for.
    waits: [u64; BOUNDS.len() + 1],
}

impl Done {
    /// What was done since then.
    pub(crate) fn since(&self, then: &Self) -> Self {
        let waits = std::array::from_fn(|i| self.waits[i].saturating_sub(then.waits[i]));
        let started = self.started.saturating_sub(then.started);
        Self { started, ended: self.ended.saturating_sub(then.ended), waits }
    }

    /// The wait in seconds that this part of all starts did not exceed, within its bucket by a
    /// straight line; 0 where nothing has started.
    pub(crate) fn waited(&self, part: f64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let counts = self.waits.map(|count| count as f64);
        let mut left = counts.iter().sum::<f64>() * part;
        let mut below = 0.0;
        for (count, bound) in counts.iter().zip(BOUNDS) {
            if *count > 0.0 && left <= *count {
                return below + (bound - below) * left / count;
            }
            left -= count;
            below = bound;
        }
        if left > 0.0 { below } else { 0.0 }
    }
}

/// What a workspace has done in this process.
pub(crate) fn done(workspace: &str) -> Done {
    let of = format!("workspace=\"{}\",", escaped(workspace));
    let kept = KEPT.0.read().unwrap_or_else(PoisonError::into_inner);
    let sum = |name| -> u64 {
        let all = kept.counters.get(name).into_iter().flatten();
        all.filter(|(labels, _)| labels.starts_with(&of))
            .map(|(_, count)| count.load(Ordering::Relaxed))
            .sum()
    };
    let (started, ended) = (sum("tidegate_starts_total"), sum("tidegate_ends_total"));
    let mut done = Done { started, ended, waits: [0; BOUNDS.len() + 1] };
    for (labels, buckets) in
        kept.histograms.get("tidegate_start_delay_seconds").into_iter().flatten()
    {
        if labels.starts_with(&of) {
            for (sum, count) in done.waits.iter_mut().zip(&buckets.counts) {
                *sum += count.load(Ordering::Relaxed);
            }
        }
    }
    done
}

/// Handles by name and then by labels: the macros ask for one each time that they count.
#[derive(Default)]
struct Kept(RwLock<Families>);

#[derive(Default)]
struct Families {
    counters: Family<AtomicU64>,
    /// As bits of floats.
    gauges: Family<AtomicU64>,
    histograms: Family<Buckets>,
}

type Family<T> = BTreeMap<String, BTreeMap<String, Arc<T>>>;

impl Kept {
    /// The handle of a name and its labels, made when it is first asked for.
    fn handle<T: Default>(
        &self,
        key: &Key,
        read: impl FnOnce(&Families) -> &Family<T>,
        write: impl FnOnce(&mut Families) -> &mut Family<T>,
    ) -> Arc<T> {
        let labels = labels(key);
        let kept = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = read(&kept).get(key.name()).and_then(|all| all.get(&labels)) {
            return handle.clone();
        }
        drop(kept);
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let all = write(&mut kept).entry(key.name().to_owned()).or_default();
        all.entry(labels).or_default().clone()
    }
}

impl Recorder for Kept {
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
        Histogram::from_arc(self.handle(key, |it| &it.histograms, |it| &mut it.histograms))
    }
}

/// How many values fell under each bound, those under the bound before not counted.
#[derive(Default)]
struct Buckets {
    counts: [AtomicU64; BOUNDS.len() + 1],
    /// The bits of a float.
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

/// The labels as they are written, without the braces.
fn labels(key: &Key) -> String {
    let mut text = String::new();
    for label in key.labels() {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a string does not fail.
        let _ = write!(text, "{comma}{}=\"{}\"", label.key(), escaped(label.value()));
    }
    text
}

/// A label's value between quotes.
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

    use super::{BOUNDS, Done, Kept};

    #[test]
    fn a_part_of_the_waits_is_found_within_its_bucket() {
        let mut done = Done::default();
        assert!(done.waited(0.5) <= 0.0, "nothing has started");
        let within = |bound: f64| BOUNDS.iter().position(|it| *it >= bound).unwrap();
        done.waits[within(1.0)] = 10;
        done.waits[within(30.0)] = 10;
        for (part, seconds) in [(0.25, 0.75), (0.5, 1.0), (0.75, 20.0), (1.0, 30.0)] {
            assert!((done.waited(part) - seconds).abs() < 1e-9, "{part}: {}", done.waited(part));
        }
    }

    #[test]
    fn what_is_kept_is_told_as_prometheus_reads_it() {
        let (kept, from) = (Kept::default(), Metadata::new("", Level::INFO, None));
        let odd = Key::from_parts("starts_total", vec![Label::new("workflow", "a\"\\\nb")]);
        kept.register_counter(&odd, &from).increment(2);
        kept.register_counter(&odd, &from).increment(1);
        kept.register_gauge(&Key::from_name("driven"), &from).set(1.5);
        let took = kept.register_histogram(&Key::from_name("took"), &from);
        for value in [0.0005, 0.3, 100_000.0] {
            took.record(value);
        }
        let text = kept.0.read().unwrap().to_string();
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
            assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
        }
    }
}
