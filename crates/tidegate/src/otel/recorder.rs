//! Implementation of the `metrics` facade on an OpenTelemetry meter.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock, atomic::AtomicU64, atomic::Ordering},
};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata,
    SharedString, Unit,
};
use opentelemetry::{
    KeyValue,
    metrics::{self as otel, Meter},
};

/// Upper bounds of the buckets of histograms, in seconds or counts: from the hand-over of a run to
/// a wait of days. The defaults of OpenTelemetry are for milliseconds.
const BOUNDS: [f64; 17] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 600.0,
    3_600.0, 86_400.0,
];

/// Recorder that forwards a program's metrics to OpenTelemetry.
pub struct Recorder {
    meter: Meter,
    known: RwLock<Known>,
    /// Units and descriptions of metrics, for instruments that are created later.
    described: Mutex<BTreeMap<String, (Option<Unit>, SharedString)>>,
}

/// Handles of metrics, by name and labels: the macros request a handle at each call.
#[derive(Default)]
struct Known {
    counters: HashMap<Key, Counter>,
    gauges: HashMap<Key, Gauge>,
    histograms: HashMap<Key, Histogram>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

/// Returns the existing handle of a metric, or creates one.
macro_rules! handle {
    ($self:ident, $key:ident, $kind:ident, $make:expr) => {{
        let known = $self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = known.$kind.get($key) {
            return handle.clone();
        }
        drop(known);
        let (unit, description) = $self.description($key.name());
        let made = $make(unit, description);
        let mut known = $self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.$kind.entry($key.clone()).or_insert(made).clone()
    }};
}

impl Recorder {
    pub(super) fn new(meter: Meter) -> Self {
        Self { meter, known: RwLock::default(), described: Mutex::default() }
    }

    fn describe(&self, key: &KeyName, unit: Option<Unit>, description: SharedString) {
        let mut described = self.described.lock().unwrap_or_else(PoisonError::into_inner);
        described.insert(key.as_str().to_owned(), (unit, description));
    }

    /// Returns the unit and the description of an instrument. If no unit was set, it may follow
    /// from the end of the name.
    fn description(&self, name: &str) -> (&'static str, String) {
        let described = self.described.lock().unwrap_or_else(PoisonError::into_inner);
        let (unit, description) = described.get(name).cloned().unwrap_or((None, "".into()));
        let unit = match unit {
            Some(unit) => unit.as_canonical_label(),
            None if name.ends_with("_seconds") => "s",
            None => "",
        };
        (unit, description.into_owned())
    }
}

fn attributes(key: &Key) -> Vec<KeyValue> {
    let labels = key.labels();
    labels.map(|label| KeyValue::new(label.key().to_owned(), label.value().to_owned())).collect()
}

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(&key, unit, description);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(&key, unit, description);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(&key, unit, description);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        handle!(self, key, counters, |unit, description| {
            let counter = self.meter.u64_counter(key.name().to_owned());
            let counter = counter.with_unit(unit).with_description(description).build();
            let (total, attributes) = (AtomicU64::new(0), attributes(key));
            Counter::from_arc(Arc::new(Counted { counter, total, attributes }))
        })
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        handle!(self, key, gauges, |unit, description| {
            let gauge = self.meter.f64_gauge(key.name().to_owned());
            let gauge = gauge.with_unit(unit).with_description(description).build();
            let (value, attributes) = (Mutex::new(0.0), attributes(key));
            Gauge::from_arc(Arc::new(Level { gauge, value, attributes }))
        })
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        handle!(self, key, histograms, |unit, description| {
            let histogram = self.meter.f64_histogram(key.name().to_owned());
            let histogram = histogram.with_unit(unit).with_description(description);
            let histogram = histogram.with_boundaries(BOUNDS.to_vec()).build();
            Histogram::from_arc(Arc::new(Measured { histogram, attributes: attributes(key) }))
        })
    }
}

struct Counted {
    counter: otel::Counter<u64>,
    /// Current total: needed because the facade can also set a counter to an absolute value.
    total: AtomicU64,
    attributes: Vec<KeyValue>,
}

impl CounterFn for Counted {
    fn increment(&self, value: u64) {
        self.total.fetch_add(value, Ordering::Relaxed);
        self.counter.add(value, &self.attributes);
    }

    fn absolute(&self, value: u64) {
        let before = self.total.fetch_max(value, Ordering::Relaxed);
        self.counter.add(value.saturating_sub(before), &self.attributes);
    }
}

struct Level {
    gauge: otel::Gauge<f64>,
    /// Current value: needed because an OpenTelemetry gauge can only be set, not increased.
    value: Mutex<f64>,
    attributes: Vec<KeyValue>,
}

impl Level {
    fn change(&self, to: impl FnOnce(f64) -> f64) {
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        *value = to(*value);
        self.gauge.record(*value, &self.attributes);
    }
}

impl GaugeFn for Level {
    fn increment(&self, by: f64) {
        self.change(|value| value + by);
    }

    fn decrement(&self, by: f64) {
        self.change(|value| value - by);
    }

    fn set(&self, value: f64) {
        self.change(|_| value);
    }
}

struct Measured {
    histogram: otel::Histogram<f64>,
    attributes: Vec<KeyValue>,
}

impl HistogramFn for Measured {
    fn record(&self, value: f64) {
        self.histogram.record(value, &self.attributes);
    }
}
