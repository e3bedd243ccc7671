//! Each figure beside its limit and its goal.

use std::fmt::Write as _;

use crate::{
    figures::{Figures, median},
    limits,
    stores::Kind,
};

/// What a figure is measured against.
enum Limit {
    /// A limit's rate; so much of it is the goal, 0 for none.
    Of(&'static str, f64),
    /// Rows a second in large commits, divided by the rows that it wrote.
    Rows(f64),
    /// Another workload's figure.
    Beside(&'static str, f64),
    /// At most so many of a latency, plus milliseconds.
    Time(&'static str, &'static str, f64, f64),
    /// At most so many megabytes.
    Megabytes(f64),
}

/// Every workload, its limit and its goal.
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
        ("W9.sleeping", Limit::Megabytes(100.0)),
        ("W9.keys", Limit::Megabytes(200.0)),
    ]
}

/// One line of the table.
struct Line {
    /// Each figure divided by its limit.
    ratios: Vec<f64>,
    limit: String,
    /// How the ratio should be; none where nothing is asked for.
    goal: Option<(bool, f64)>,
}

/// Prints the table.
#[expect(clippy::print_stderr, reason = "printing is what it is for")]
pub(super) fn table(figures: &Figures, kinds: &[Kind]) {
    eprintln!(
        "{:15} {:18} {:>9} {:>17}  {:>6} {:>11}  of what; goal; row writes, commits, reads and processor time each",
        "", "", "median", "spread", "ratio", "spread"
    );
    for kind in kinds {
        for (workload, limit) in goals(*kind) {
            let taken = figures.of(kind.name(), workload);
            if taken.is_empty() {
                continue;
            }
            let line = line(figures, *kind, workload, &limit);
            let (least, most) = ends(taken);
            let (low, high) = ends(&line.ratios);
            let ratio = median(&line.ratios);
            let goal = match line.goal {
                None => String::new(),
                Some((above, goal)) => {
                    let met = if above { ratio >= goal } else { ratio <= goal };
                    let sign = if above { '≥' } else { '≤' };
                    format!("; goal {sign} {goal:.2} {}", if met { "met" } else { "MISSED" })
                }
            };
            eprintln!(
                "{:15} {workload:18} {:>9} {:>17}  {ratio:>6.2} {:>11}  {}{goal}{}",
                kind.name(),
                short(median(taken)),
                format!("{}–{}", short(least), short(most)),
                format!("{low:.2}–{high:.2}"),
                line.limit,
                counts(figures, *kind, workload)
            );
        }
    }
}

fn line(figures: &Figures, kind: Kind, workload: &str, limit: &Limit) -> Line {
    let (peer, raw) = (kind.name(), limits::peer(kind));
    let taken = figures.of(peer, workload);
    let over = |limits: &[f64]| -> Vec<f64> {
        taken.iter().zip(limits).map(|(figure, limit)| figure / limit).collect()
    };
    match limit {
        Limit::Of(name, goal) => {
            let of = figures.of(raw, name);
            let limit = format!("{name} {}", short(median(of)));
            Line { ratios: over(of), limit, goal: (*goal > 0.0).then_some((true, *goal)) }
        }
        Limit::Rows(goal) => {
            let rows = figures.of(peer, &format!("{workload}.rows"));
            let of: Vec<f64> =
                figures.of(raw, "rows500").iter().zip(rows).map(|(all, rows)| all / rows).collect();
            let mut limit = format!("rows500 ÷ {:.2} rows {}", median(rows), short(median(&of)));
            let replay = figures.of(raw, &format!("{workload}.replay"));
            if !replay.is_empty() {
                let share = median(&over(replay));
                let _ = write!(limit, " ({share:.2} of the same changes raw)");
            }
            Line { ratios: over(&of), limit, goal: (*goal > 0.0).then_some((true, *goal)) }
        }
        Limit::Beside(name, goal) => {
            let of = figures.of(peer, name);
            let limit = format!("{name} {}", short(median(of)));
            Line { ratios: over(of), limit, goal: (*goal > 0.0).then_some((true, *goal)) }
        }
        Limit::Time(peer, name, times, plus) => {
            let of: Vec<f64> =
                figures.of(peer, name).iter().map(|one| one * times + plus).collect();
            let limit = format!("{times} × {name} + {plus} = {:.2} ms", median(&of));
            Line { ratios: over(&of), limit, goal: Some((false, 1.0)) }
        }
        Limit::Megabytes(most) => {
            let ratios = taken.iter().map(|figure| figure / most).collect();
            Line { ratios, limit: format!("{most} MB"), goal: Some((false, 1.0)) }
        }
    }
}

/// What the engine did for each run, start or step.
fn counts(figures: &Figures, kind: Kind, workload: &str) -> String {
    let each = |what: &str| median(figures.of(kind.name(), &format!("{workload}.{what}")));
    let (rows, commits, reads) = (each("rows"), each("commits"), each("reads"));
    if rows.is_nan() {
        return String::new();
    }
    let cpu = each("cpu");
    format!("; {rows:.2} rows, {commits:.3} commits, {reads:.3} reads, {cpu:.0} µs")
}

fn ends(figures: &[f64]) -> (f64, f64) {
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    (least, figures.iter().copied().fold(0.0, f64::max))
}

/// A figure for people.
fn short(figure: f64) -> String {
    if figure < 100.0 { format!("{figure:.2}") } else { format!("{figure:.0}") }
}
