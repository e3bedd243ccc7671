//! Table of results of the streams benchmark: each figure with its limit and its goal.

use crate::{
    figures::{Figures, median},
    limits,
    stores::Kind,
};

/// Workloads with a throughput. The goal is this fraction of bare group commit; 0 means no goal.
const RATES: [(&str, f64); 6] = [
    ("W6.s1", 1.0 / 3.0),
    ("W6.s1000", 0.5),
    ("W6.pinned", 0.0),
    ("W6.react", 0.0),
    ("W6.react.p100", 0.0),
    ("W6.live", 0.0),
];

/// Workloads with a latency. The goal is at most this many milliseconds; 0 means no goal.
const TIMES: [(&str, f64); 4] =
    [("W6.load", 5.0), ("W6.act", 0.0), ("W6.delivery", 0.0), ("W6.live.lag", 0.0)];

#[expect(clippy::print_stderr, reason = "this function prints results")]
pub(super) fn print(figures: &Figures, kinds: &[Kind]) {
    eprintln!(
        "| | store | a second | spread | of group commit (spread) | goal | of its own rows, raw | conflicts | rows, commits, reads, µs each |"
    );
    eprintln!("|---|---|---|---|---|---|---|---|---|");
    for (workload, goal) in RATES {
        for kind in kinds {
            rate(figures, *kind, workload, goal);
        }
    }
    eprintln!("\n| | store | median ms | spread | p99 ms | goal |\n|---|---|---|---|---|---|");
    for (workload, goal) in TIMES {
        for kind in kinds {
            time(figures, *kind, workload, goal);
        }
    }
}

#[expect(clippy::print_stderr, reason = "this function prints results")]
fn rate(figures: &Figures, kind: Kind, workload: &str, goal: f64) {
    let (peer, raw) = (kind.name(), limits::peer(kind));
    let taken = figures.of(peer, workload);
    if taken.is_empty() {
        return;
    }
    let over = |limit: &str| -> Vec<f64> {
        let of = figures.of(raw, &format!("{workload}.{limit}"));
        taken.iter().zip(of).map(|(figure, limit)| figure / limit).collect()
    };
    let (group, replay) = (over("group"), over("replay"));
    let bare = median(figures.of(raw, &format!("{workload}.group")));
    let of_group = if group.is_empty() {
        String::new()
    } else {
        format!("{:.2} of {bare:.0} ({})", median(&group), spread(&group, 2))
    };
    let met = if goal > 0.0 { verdict(median(&group) >= goal, '≥', goal) } else { String::new() };
    let replay = if replay.is_empty() { String::new() } else { format!("{:.2}", median(&replay)) };
    let each = |what: &str| median(figures.of(peer, &format!("{workload}.{what}")));
    let conflicts = each("conflicts");
    let conflicts =
        if conflicts.is_nan() { String::new() } else { format!("{:.1} %", conflicts * 100.0) };
    let counts = ["rows", "commits", "reads"].map(|what| format!("{:.2}", each(what))).join(", ");
    eprintln!(
        "| {workload} | {peer} | {:.0} | {} | {of_group} | {met} | {replay} | {conflicts} | {counts}, {:.0} |",
        median(taken),
        spread(taken, 0),
        each("cpu"),
    );
}

#[expect(clippy::print_stderr, reason = "this function prints results")]
fn time(figures: &Figures, kind: Kind, workload: &str, goal: f64) {
    let taken = figures.of(kind.name(), workload);
    if taken.is_empty() {
        return;
    }
    let p99 = median(figures.of(kind.name(), &format!("{workload}.p99")));
    let met = if goal > 0.0 { verdict(median(taken) <= goal, '≤', goal) } else { String::new() };
    let (peer, median, spread) = (kind.name(), median(taken), spread(taken, 2));
    eprintln!("| {workload} | {peer} | {median:.2} | {spread} | {p99:.2} | {met} |");
}

fn verdict(met: bool, sign: char, goal: f64) -> String {
    format!("{sign} {goal:.2}: {}", if met { "met" } else { "missed" })
}

fn spread(figures: &[f64], digits: usize) -> String {
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let most = figures.iter().copied().fold(0.0, f64::max);
    format!("{least:.digits$}–{most:.digits$}")
}
