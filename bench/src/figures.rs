//! Figures: collects the results of measurements and prints them as JSON lines.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde::Serialize;
use serde_json::Value;

/// Returns a count per second.
#[expect(clippy::cast_precision_loss, reason = "the last digits do not matter")]
pub(crate) fn rate(n: usize, took: Duration) -> f64 {
    n as f64 / took.as_secs_f64()
}

/// Returns the median. For an even number of figures, this is the upper of the middle two.
pub(crate) fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Figures by system and workload, in the order in which they were measured.
#[derive(Debug, Default)]
pub(crate) struct Figures(BTreeMap<(String, String), Vec<f64>>);

impl Figures {
    /// Stores a figure without printing it.
    pub(crate) fn keep(&mut self, peer: &str, workload: &str, figure: f64) {
        self.0.entry((peer.to_owned(), workload.to_owned())).or_default().push(figure);
    }

    /// Stores a throughput and prints it as a line, with additional fields.
    pub(crate) fn throughput(
        &mut self,
        peer: &str,
        workload: &str,
        n: usize,
        took: Duration,
        more: Value,
    ) {
        let rate = rate(n, took);
        self.keep(peer, workload, rate);
        let ms = rounded(took.as_secs_f64() * 1000.0, 1);
        let rate = rounded(rate, 1);
        print(&Line { peer, workload, n, figures: Throughput { ms, rate }, more });
    }

    /// Stores the median of latencies and prints them as a line.
    pub(crate) fn latency(&mut self, peer: &str, workload: &str, mut each: Vec<f64>) {
        each.sort_by(f64::total_cmp);
        let at = |percent: usize| {
            each.get(each.len() * percent / 100).or(each.last()).copied().unwrap_or(f64::NAN)
        };
        self.keep(peer, workload, at(50));
        self.keep(peer, &format!("{workload}.p99"), at(99));
        let [p50, p99, max] = [50, 99, 100].map(|percent| rounded(at(percent), 3));
        let figures = Latency { p50, p99, max };
        print(&Line { peer, workload, n: each.len(), figures, more: Value::Null });
    }

    /// Stores a size in megabytes and prints it as a line, with additional fields.
    pub(crate) fn memory(&mut self, peer: &str, workload: &str, n: usize, mb: f64, more: Value) {
        self.keep(peer, workload, mb);
        print(&Line { peer, workload, n, figures: Size { mb: rounded(mb, 1) }, more });
    }

    /// Returns all figures of one workload, in the order in which they were measured.
    pub(crate) fn of(&self, peer: &str, workload: &str) -> &[f64] {
        let key = (peer.to_owned(), workload.to_owned());
        self.0.get(&key).map_or(&[], Vec::as_slice)
    }
}

/// One line of the output. The order of the fields is the order in which they are printed.
#[derive(Serialize)]
struct Line<'a, F> {
    peer: &'a str,
    workload: &'a str,
    n: usize,
    #[serde(flatten)]
    figures: F,
    #[serde(flatten)]
    more: Value,
}

#[derive(Serialize)]
struct Throughput {
    ms: f64,
    rate: f64,
}

#[derive(Serialize)]
struct Latency {
    p50: f64,
    p99: f64,
    max: f64,
}

#[derive(Serialize)]
struct Size {
    mb: f64,
}

#[expect(clippy::print_stdout, reason = "this function prints results")]
fn print(line: &impl Serialize) {
    println!("{}", serde_json::to_string(line).expect("figures are plain values"));
}

/// Rounds a figure to this many decimal places.
pub(crate) fn rounded(figure: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (figure * scale).round() / scale
}

/// Returns the milliseconds since `started`.
pub(crate) fn ms_since(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1000.0
}

/// Returns the processor time of this process so far, in microseconds, as the kernel counts it.
pub(crate) fn cpu_micros() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the process name in parentheses, which may contain spaces and `)`: so
    // only the text after the last `)` is split into fields.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    // Linux counts this time in ticks of 10 ms on all common machines.
    ticks * 10_000.0
}
