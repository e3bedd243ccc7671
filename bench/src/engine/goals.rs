//! Table of results: each figure with its limit, their ratio and the goal of the ratio.

use std::fmt::Write as _;

use crate::{
    figures::{Figures, median},
    limits,
    stores::Kind,
};

/// The reference that a figure is compared with.
enum Limit {
    /// The rate of a limit, by name, and the fraction of it that is the goal (0: no goal).
    Of(&'static str, f64),
    /// Rows a second in large commits, divided by the rows that one unit of the workload
    /// writes; and the fraction of it that is the goal (0: no goal).
    Rows(f64),
    /// The figure of another workload, by name, and the fraction of it that is the goal.
    Beside(&'static str, f64),
    /// The goal is at most a multiple of a latency plus some milliseconds. Fields: system, name
    /// of the latency, factor, milliseconds.
    Time(&'static str, &'static str, f64, f64),
    /// The goal is at most an absolute value, given with its unit.
    AtMost(f64, &'static str),
}

/// Returns all workloads, each with its limit and its goal.
fn goals(kind: Kind) -> Vec<(&'static str, Limit)> {
    let latency = match kind {
        Kind::Sqlite => Limit::Time("raw", "fdatasync.ms", 2.0, 1.0),
        Kind::Postgres => Limit::Time("raw-pg", "commit.ms", 3.0, 2.0),
    };
    vec![
        ("W1.c16", Limit::Of("group.same.c16", 0.0)),
        ("W1.c64", Limit::Of("group.same.c64", 0.6)),
        ("W1.bulk500", Limit::Rows(0.5)),
        ("W2.c64", Limit::Rows(0.5)),
        ("W3.steps", Limit::Rows(0.4)),
        ("W4", latency),
        ("W5.hot", Limit::Of("commit.c1", 1.0)),
        ("W5.k1000", Limit::Rows(0.0)),
        ("W5.cold_behind_hot", Limit::Beside("W5.k1000", 0.0)),
        ("W5.slack", Limit::Beside("W2.c64", 0.95)),
        ("W7.0", Limit::Rows(0.0)),
        ("W7.100k", Limit::Beside("W7.0", 0.0)),
        ("W7.1M", Limit::Beside("W7.0", 0.8)),
        ("W9.sleeping", Limit::AtMost(100.0, "MB")),
        ("W9.keys", Limit::AtMost(200.0, "MB")),
        ("W9.wake", Limit::Rows(0.0)),
        ("idle", Limit::AtMost(0.5, "calls a second")),
        ("W10.1", Limit::Rows(0.0)),
        ("W10.10", Limit::Beside("W10.1", 0.0)),
        ("W10.100", Limit::Beside("W10.1", 0.0)),
        ("W10.1k", Limit::Beside("W10.1", 0.8)),
        ("W10.10k", Limit::Beside("W10.1", 0.0)),
        ("W10.10k.define", Limit::Beside("W10.1k.define", 0.83)),
        ("W12.pool", Limit::Beside("W12.pool.without", 0.9)),
        ("W12.hotPool", Limit::Beside("W12.hotPool.without", 0.95)),
        ("W12.fair", Limit::Beside("W12.fair.without", 0.9)),
        ("W12.overrides", Limit::Beside("W12.overrides.without", 0.9)),
        ("W12.cancelOn", Limit::Beside("W12.cancelOn.without", 0.9)),
    ]
}

/// Line of the table: one workload on one store, compared with its limit.
pub(super) struct Line {
    pub(super) kind: Kind,
    pub(super) workload: &'static str,
    /// The figures, in the order in which they were measured.
    pub(super) taken: Vec<f64>,
    /// Each figure divided by its limit of the same round.
    pub(super) ratios: Vec<f64>,
    /// The name of the limit.
    pub(super) limit: String,
    /// The figure divided by the rate at which the same changes are written without an engine.
    pub(super) same: Option<f64>,
    /// The goal of the ratio, if it has one.
    pub(super) goal: Option<Goal>,
    /// Row writes, commits, reads, microseconds of processor time and allocations per unit, if
    /// they were counted.
    pub(super) each: Option<[f64; 5]>,
}

/// Goal of a ratio.
#[derive(Clone, Copy)]
pub(super) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Line {
    pub(super) fn ratio(&self) -> f64 {
        median(&self.ratios)
    }

    /// Returns whether the goal is met, or `None` without a goal.
    pub(super) fn met(&self) -> Option<bool> {
        Some(match self.goal? {
            Goal::AtLeast(goal) => self.ratio() >= goal,
            Goal::AtMost(goal) => self.ratio() <= goal,
        })
    }

    /// Formats the goal with `met` or `MISSED`.
    pub(super) fn verdict(&self) -> String {
        let goal = match self.goal {
            None => return String::new(),
            Some(Goal::AtLeast(goal)) => format!("≥ {goal:.2}"),
            Some(Goal::AtMost(goal)) => format!("≤ {goal:.2}"),
        };
        format!("{goal} {}", if self.met() == Some(true) { "met" } else { "MISSED" })
    }

    /// Formats the smallest and the largest figure.
    pub(super) fn spread(&self) -> String {
        let (least, most) = ends(&self.taken);
        format!("{}–{}", short(least), short(most))
    }

    /// Formats the smallest and the largest ratio.
    pub(super) fn ratio_spread(&self) -> String {
        let (low, high) = ends(&self.ratios);
        format!("{low:.2}–{high:.2}")
    }
}

/// Returns a line for each workload that was measured.
pub(super) fn lines(figures: &Figures, kinds: &[Kind]) -> Vec<Line> {
    let all = kinds.iter().flat_map(|kind| {
        let goals = goals(*kind).into_iter();
        goals.map(|(workload, limit)| line(figures, *kind, workload, &limit))
    });
    all.filter(|line| !line.taken.is_empty()).collect()
}

/// Prints the table of results.
#[expect(clippy::print_stderr, reason = "this function prints results")]
pub(super) fn print(lines: &[Line]) {
    eprintln!(
        "{:15} {:18} {:>9} {:>17}  {:>6} {:>11}  limit; goal; row writes, commits, reads and processor time each",
        "", "", "median", "spread", "ratio", "spread"
    );
    for line in lines {
        let mut rest = line.limit.clone();
        if let Some(same) = line.same {
            let _ = write!(rest, " ({same:.2} of the same changes raw)");
        }
        if line.goal.is_some() {
            let _ = write!(rest, "; goal {}", line.verdict());
        }
        if let Some([rows, commits, reads, cpu, allocations]) = line.each {
            let _ = write!(
                rest,
                "; {rows:.2} rows, {commits:.3} commits, {reads:.3} reads, {cpu:.0} µs"
            );
            if allocations > 0.0 {
                let _ = write!(rest, ", {allocations:.0} allocations");
            }
        }
        eprintln!(
            "{:15} {:18} {:>9} {:>17}  {:>6.2} {:>11}  {rest}",
            line.kind.name(),
            line.workload,
            short(median(&line.taken)),
            line.spread(),
            line.ratio(),
            line.ratio_spread(),
        );
    }
}

fn line(figures: &Figures, kind: Kind, workload: &'static str, limit: &Limit) -> Line {
    let (peer, raw) = (kind.name(), limits::peer(kind));
    let taken = figures.of(peer, workload);
    let over = |limits: &[f64]| -> Vec<f64> {
        taken.iter().zip(limits).map(|(figure, limit)| figure / limit).collect()
    };
    let at_least = |goal: f64| (goal > 0.0).then_some(Goal::AtLeast(goal));
    let (ratios, limit, goal) = match limit {
        Limit::Of(name, goal) => {
            let of = figures.of(raw, name);
            (over(of), format!("{name} {}", short(median(of))), at_least(*goal))
        }
        Limit::Rows(goal) => {
            let rows = figures.of(peer, &format!("{workload}.rows"));
            let of = figures.of(raw, "rows500").iter().zip(rows);
            let of: Vec<f64> = of.map(|(all, rows)| all / rows).collect();
            let limit = format!("rows500 ÷ {:.2} rows {}", median(rows), short(median(&of)));
            (over(&of), limit, at_least(*goal))
        }
        Limit::Beside(name, goal) => {
            let of = figures.of(peer, name);
            (over(of), format!("{name} {}", short(median(of))), at_least(*goal))
        }
        Limit::Time(peer, name, times, plus) => {
            let of = figures.of(peer, name).iter().map(|one| one * times + plus);
            let of: Vec<f64> = of.collect();
            let limit = format!("{times} × {name} + {plus} = {:.2} ms", median(&of));
            (over(&of), limit, Some(Goal::AtMost(1.0)))
        }
        Limit::AtMost(most, unit) => {
            let ratios = taken.iter().map(|figure| figure / most).collect();
            (ratios, format!("{most} {unit}"), Some(Goal::AtMost(1.0)))
        }
    };
    let replay = figures.of(raw, &format!("{workload}.replay"));
    let same = (!replay.is_empty()).then(|| median(&over(replay)));
    let each = ["rows", "commits", "reads", "cpu", "allocations"]
        .map(|what| median(figures.of(peer, &format!("{workload}.{what}"))));
    let each = (!each[0].is_nan()).then_some(each);
    Line { kind, workload, taken: taken.to_vec(), ratios, limit, same, goal, each }
}

fn ends(figures: &[f64]) -> (f64, f64) {
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    (least, figures.iter().copied().fold(0.0, f64::max))
}

/// Formats a figure with about three digits.
pub(super) fn short(figure: f64) -> String {
    if figure < 100.0 { format!("{figure:.2}") } else { format!("{figure:.0}") }
}
