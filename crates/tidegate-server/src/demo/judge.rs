//! The checks of the demo, and the results that they check, read from its store.

use std::{collections::BTreeMap, fmt::Display, io::Write, sync::Arc};

use tidegate::{Engine, RunId, Timestamp};
use tidegate_core::{
    list::{RunFilter, RunStatus},
    observe::{Part, receipts},
    row::{At, Ending, Mark, Purpose, Receipt, Row, Trail},
};
use tidegate_store::check_up;

use super::{ledger::Ledger, world};

/// Page size.
const PAGE: u32 = 500;

/// Maximum number of streams to list: the demo has a handful.
const STREAMS: u32 = 100;

/// One check, and its result.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) holds: bool,
    /// A sentence that says what was checked, with the observed values.
    pub(super) what: String,
}

impl Check {
    pub(super) fn new(holds: bool, what: impl Into<String>) -> Self {
        Self { holds, what: what.into() }
    }
}

/// Counts of one workflow.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) runs: u64,
    pub(super) done: u64,
    pub(super) failed: u64,
    pub(super) alive: u64,
    pub(super) queued: u64,
    pub(super) merged: u64,
    pub(super) refused: u64,
    pub(super) replaced: u64,
    /// Number of completed compensation runs.
    pub(super) undoing: u64,
}

/// When a run was queued and when a worker first had it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) queued: Timestamp,
    pub(super) started: Option<Timestamp>,
}

impl Times {
    fn new(queued: Timestamp, trail: &Trail) -> Self {
        let started = trail.marks().iter().find(|Mark(_, at)| *at == At::Driven);
        Self { queued, started: started.map(|mark| mark.0) }
    }
}

/// All results that the checks use.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) ledger: Arc<Ledger>,
    workflows: BTreeMap<String, Tally>,
    /// Each run, with the times at which it was queued and first started.
    runs: BTreeMap<RunId, Times>,
    heads: BTreeMap<String, i64>,
    unhealthy: Vec<String>,
}

impl Seen {
    /// Reads all rows of the store. That is fast, because a demo is small.
    pub(super) async fn look(engine: &Engine, ledger: &Arc<Ledger>) -> anyhow::Result<Self> {
        let (mut workflows, mut runs) = (BTreeMap::new(), BTreeMap::new());
        let mut below = None;
        loop {
            let page = engine.runs(&RunFilter::default(), below, PAGE).await?;
            runs.extend(page.runs.iter().filter_map(|row| note_run(&mut workflows, row)));
            below = page.next;
            if below.is_none() {
                break;
            }
        }
        loop {
            let part = Part { below, limit: PAGE };
            let page = engine.receipts(&receipts::ReceiptFilter::default(), part).await?;
            page.items.iter().for_each(|listed| note_receipt(&mut workflows, &listed.receipt));
            below = page.next;
            if below.is_none() {
                break;
            }
        }
        let heads = engine.streams().list(None, STREAMS).await?.into_iter();
        let heads = heads.map(|stream| (stream.name, stream.version)).collect();
        let kept_since = engine.runs_kept_since();
        let report = check_up(None, kept_since, |visit| engine.store().walk(visit)).await?;
        let unhealthy = report.findings.into_iter().map(|finding| finding.text).collect();
        Ok(Self { ledger: ledger.clone(), workflows, runs, heads, unhealthy })
    }

    /// Returns the counts of a workflow.
    pub(super) fn of(&self, workflow: &str) -> Tally {
        self.workflows.get(workflow).cloned().unwrap_or_default()
    }

    /// Returns the times of a run; none if it does not exist.
    pub(super) fn times(&self, run: RunId) -> Option<Times> {
        self.runs.get(&run).copied()
    }

    /// Returns the number of events in a stream.
    pub(super) fn events_in(&self, stream: &str) -> u64 {
        let head = self.heads.get(stream).copied().unwrap_or(-1);
        u64::try_from(head + 1).unwrap_or_default()
    }

    /// Runs all checks.
    pub(super) fn checks(&self) -> Vec<Check> {
        let mut checks = world::checks(self);
        checks.extend([self.nothing_is_lost(), self.nobody_was_hurt(), self.the_doctor()]);
        checks
    }

    /// Every run id that a sender got exists as a run. The run of an open window exists when the
    /// window has closed.
    fn nothing_is_lost(&self) -> Check {
        let (sent, promised) = (self.ledger.counted("sent"), self.ledger.promised());
        let lost: Vec<_> = promised
            .iter()
            .filter(|run| !self.runs.contains_key(run))
            .map(ToString::to_string)
            .collect();
        let what =
            format!("{sent} events were sent, and all {} promised runs exist", promised.len());
        let but = if lost.is_empty() { String::new() } else { format!(", except {lost:?}") };
        Check::new(!promised.is_empty() && lost.is_empty(), what + &but)
    }

    fn nobody_was_hurt(&self) -> Check {
        let errors = self.ledger.all_broken("traffic");
        let what = format!("no request failed {}", errors.join("; "));
        Check::new(errors.is_empty(), what.trim_end())
    }

    fn the_doctor(&self) -> Check {
        let what = format!("the doctor finds no violation {}", self.unhealthy.join("; "));
        Check::new(self.unhealthy.is_empty(), what.trim_end())
    }

    /// Prints the counts of each workflow.
    pub(super) fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        let heads =
            ["RUNS", "DONE", "FAILED", "ACTIVE", "QUEUED", "MERGED", "REJECTED", "REPLACED"];
        writeln!(out, "{}", line("", heads))?;
        for (workflow, it) in &self.workflows {
            let Tally { runs, done, failed, alive, queued, merged, refused, replaced, .. } = *it;
            let numbers = [runs, done, failed, alive, queued, merged, refused, replaced];
            writeln!(out, "{}", line(workflow, numbers))?;
        }
        Ok(())
    }
}

fn line(name: &str, cells: [impl Display; 8]) -> String {
    let cells = cells.map(|cell| format!("{cell:>9}")).concat();
    format!("{name:16}{cells}")
}

/// Counts a run. Returns its id and times.
fn note_run(workflows: &mut BTreeMap<String, Tally>, row: &Row) -> Option<(RunId, Times)> {
    let (id, workflow, purpose, state, times) = match row {
        Row::Run(run) => {
            // A run that is being stopped has no status here: it has ended, and its `Ended` row is
            // counted.
            let times = Times::new(run.queued_at, &run.trail);
            (run.id, &run.workflow, run.purpose, RunStatus::of(run)?, times)
        }
        Row::Ended(ended) => {
            let state = match ended.ending {
                Ending::Completed { .. } => RunStatus::Completed,
                Ending::Failed { .. } => RunStatus::Failed,
                Ending::Cancelled { .. } => RunStatus::Cancelled,
            };
            let times = Times::new(ended.queued_at, &ended.trail);
            (ended.id, &ended.workflow, ended.purpose, state, times)
        }
        _ => return None,
    };
    let tally = workflows.entry(workflow.clone()).or_default();
    match purpose {
        Purpose::Ordinary => {}
        Purpose::Compensates(_) => {
            tally.undoing += u64::from(state == RunStatus::Completed);
            return None;
        }
        Purpose::OnFailure(_) => return None,
    }
    tally.runs += 1;
    match state {
        RunStatus::Completed | RunStatus::Cancelled => tally.done += 1,
        RunStatus::Failed => tally.failed += 1,
        RunStatus::Queued | RunStatus::Running | RunStatus::Waiting | RunStatus::Paused => {
            tally.alive += 1;
        }
    }
    Some((id, times))
}

fn note_receipt(workflows: &mut BTreeMap<String, Tally>, receipt: &Receipt) {
    let tally = workflows.entry(receipt.workflow.clone()).or_default();
    match receipt.verdict["outcome"].as_str().unwrap_or_default() {
        "queued" => tally.queued += 1,
        "replaced" => tally.replaced += 1,
        "coalesced" | "buffered" => tally.merged += 1,
        _ => tally.refused += 1,
    }
}
