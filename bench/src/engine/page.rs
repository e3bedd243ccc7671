//! Writes the results to disk: the table between two markers of `bench/README.md`, and a chart.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::Context;

use super::goals::{Goal, Line, short};
use crate::{figures::median, stores::Kind};

const BEGIN: &str = "<!-- results: written by `cargo bench-engine --write` -->";
const END: &str = "<!-- end of results -->";

/// Replaces the table in `bench/README.md`, and writes the chart.
pub(super) fn write(lines: &[Line], rounds: usize) -> anyhow::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = folder.join("README.md");
    let text = fs::read_to_string(&page)?;
    let text = replaced(&text, &table(lines, rounds))
        .with_context(|| format!("{} must have the lines `{BEGIN}` and `{END}`", page.display()))?;
    fs::write(page, text)?;
    fs::write(folder.join("results.svg"), picture(lines))?;
    Ok(())
}

/// Returns the page with `table` between its markers, or `None` if a marker is missing.
fn replaced(page: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{table}\n{END}{after}"))
}

fn table(lines: &[Line], rounds: usize) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let mut out = format!("{cores} cores, {rounds} rounds, medians and spreads.\n\n");
    out += "| store | workload | figure | spread | beside | ratio | spread | goal | of the same \
            changes raw | rows | commits | reads | µs |\n";
    out += "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
    for line in lines {
        let each = line.each.map_or_else(
            || " | | |".to_owned(),
            |[rows, commits, reads, cpu, _]| {
                format!("{rows:.2} | {commits:.3} | {reads:.3} | {cpu:.0}")
            },
        );
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {:.2} | {} | {} | {} | {each} |",
            store(line.kind),
            line.workload,
            short(median(&line.taken)),
            line.spread(),
            line.limit,
            line.ratio(),
            line.ratio_spread(),
            line.verdict(),
            line.same.map(|same| format!("{same:.2}")).unwrap_or_default(),
        );
    }
    out
}

fn store(kind: Kind) -> &'static str {
    match kind {
        Kind::Sqlite => "SQLite",
        Kind::Postgres => "PostgreSQL",
    }
}

/// Height of a bar, and length of a bar whose goal is exactly met, in pixels.
const BAR: usize = 16;
const GOAL: f64 = 150.0;

/// Draws a bar for each goal, and a vertical line at the length where a goal is met.
fn picture(lines: &[Line]) -> String {
    let bars: Vec<(&Line, f64)> = lines.iter().filter_map(|it| Some((it, share(it)?))).collect();
    let height = bars.len() * BAR + 30;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"560\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"560\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text x=\"{}\" y=\"14\" text-anchor=\"middle\">goal</text>\n",
        200.0 + GOAL
    );
    for (at, (line, share)) in bars.iter().enumerate() {
        let y = 22 + at * BAR;
        let colour = if *share >= 1.0 { "#2a7f62" } else { "#c8553d" };
        let _ = writeln!(
            out,
            "<text x=\"192\" y=\"{}\" text-anchor=\"end\">{} {}</text>\
             <rect x=\"200\" y=\"{y}\" width=\"{:.0}\" height=\"11\" fill=\"{colour}\"/>\
             <text x=\"{:.0}\" y=\"{}\">{share:.2}</text>",
            y + 10,
            store(line.kind),
            line.workload,
            length(*share),
            length(*share) + 206.0,
            y + 10,
        );
    }
    let _ = writeln!(
        out,
        "<line x1=\"{0}\" y1=\"18\" x2=\"{0}\" y2=\"{1}\" stroke=\"#333\" stroke-dasharray=\"3\"/>\n</svg>",
        200.0 + GOAL,
        height - 6
    );
    out
}

/// Returns the fraction of its goal that a line reaches; at 1 the goal is exactly met.
fn share(line: &Line) -> Option<f64> {
    Some(match line.goal? {
        Goal::AtLeast(goal) => line.ratio() / goal,
        Goal::AtMost(goal) => goal / line.ratio(),
    })
}

/// Returns the length of a bar, at most a fixed maximum, so that bars far above their goal fit.
fn length(share: f64) -> f64 {
    (share * GOAL).min(310.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_results_take_the_place_of_old_ones_and_of_nothing_else() {
        let page = format!("# Title\n\n{BEGIN}\nold\n{END}\n\nThe rest.\n");
        let once = replaced(&page, "new").expect("the page has both markers");
        assert_eq!(once, format!("# Title\n\n{BEGIN}\n\nnew\n{END}\n\nThe rest.\n"));
        assert_eq!(replaced(&once, "new"), Some(once.clone()), "replacing is idempotent");
        assert_eq!(replaced("no markers", "new"), None);
    }
}
