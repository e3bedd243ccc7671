//! `doctor`: checks the invariants on all rows, as they were at one point in time.
//!
//! The caller passes the rows one after another, in the order of [`RowKey`](crate::row::RowKey).
//! Only the state of live runs, gates and streams is kept in memory. The simulator does the same
//! checks after every commit.

mod deliveries;
mod flow;
mod shares;
mod streams;

use std::collections::BTreeMap;

use crate::{
    retention,
    row::{Def, Row, Schedule, Workspace},
    time::Timestamp,
};

use self::{deliveries::Deliveries, flow::Flow, streams::Streams};

/// Maximum number of findings that are listed. Further ones are only counted.
const MAX_FINDINGS: usize = 1000;

/// Invariant, with its number in `docs/spec/invariants.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// spec I2: no gate has more holders than any release has allowed.
    Limits,
    /// spec I3: a run holds the gates that its phase requires.
    Phases,
    /// spec I4: gates and runs agree on holders and queues.
    Holds,
    /// spec I4: every fold has a due time or a gate that holds it, and its run does not exist yet.
    Folds,
    /// spec I4: every row of a wait for an event belongs to a live run that has this wait.
    Waits,
    /// spec I6: an ended run is not live.
    Ends,
    /// spec I7: a gate with room and a queue has a due time.
    Queues,
    /// spec I68: a gate that counts its waiting runs counts all of them.
    Counts,
    /// spec I80: a gate that a run has closed is due when it opens.
    Closings,
    /// spec I70: of each value of `fair` that waits, the first run has the value's tag.
    Shares,
    /// spec I10: a run takes its gates in one order.
    Order,
    /// spec I17: a batch has the events that it counts.
    Items,
    /// spec I27: a driven run belongs to an engine that has a row.
    Owners,
    /// spec I31: a run's version is registered.
    Versions,
    /// spec I32: every waiting run has a wait, and the wait can end.
    Reasons,
    /// spec I35: versions of a stream have no gap and end at its head.
    Log,
    /// spec I37: positions grow, and none is beyond the workspace's head.
    Positions,
    /// spec I38: no reaction is beyond the head of its stream.
    Places,
    /// spec I44: a run, its gates and its input belong to one workspace.
    Workspaces,
    /// spec I47: a run counts the operations that it has staged.
    Staged,
    /// spec I48: every run that a receipt names can be found.
    Answers,
    /// spec I49: a stream is closed if its last event is a guard.
    Guards,
    /// spec I52: the next occurrence is later than the last one; a paused schedule has none
    /// planned.
    Schedules,
    /// spec I73: a step is in a pool only while its run is driven, or queued for the step.
    StepPools,
    /// spec I91: a deferred event that waits has a chore that is due at its time, and no other event
    /// has one.
    Deliveries,
    /// spec I95: an adaptive limit grows in time, and no run knows of a later change than its row.
    Adaptive,
    /// spec I97: no two waits of a workspace are for the same name.
    Names,
}

impl Rule {
    /// All rules, in the order of their numbers.
    pub const ALL: [Self; 27] = [
        Self::Limits,
        Self::Phases,
        Self::Holds,
        Self::Folds,
        Self::Waits,
        Self::Ends,
        Self::Queues,
        Self::Order,
        Self::Items,
        Self::Owners,
        Self::Versions,
        Self::Reasons,
        Self::Log,
        Self::Positions,
        Self::Places,
        Self::Workspaces,
        Self::Staged,
        Self::Answers,
        Self::Guards,
        Self::Schedules,
        Self::Counts,
        Self::Closings,
        Self::StepPools,
        Self::Shares,
        Self::Deliveries,
        Self::Adaptive,
        Self::Names,
    ];

    /// Returns the rule's number.
    pub fn number(self) -> &'static str {
        self.said().0
    }

    /// Returns the invariant as a sentence.
    pub fn sentence(self) -> &'static str {
        self.said().1
    }

    fn said(self) -> (&'static str, &'static str) {
        match self {
            Self::Limits => ("I2", "no gate has more holders than any release has allowed"),
            Self::Phases => ("I3", "a run holds the gates that its phase requires"),
            Self::Holds => ("I4", "gates and runs agree on holders and queues"),
            Self::Folds => {
                ("I4", "every fold has a due time or a gate that holds it, and no run yet")
            }
            Self::Waits => ("I4", "every wait for an event is filed under a live run"),
            Self::Ends => ("I6", "an ended run is not live"),
            Self::Queues => ("I7", "a gate with room and a queue has a due time"),
            Self::Order => ("I10", "a run takes its gates in one order"),
            Self::Items => ("I17", "a batch has the events that it counts"),
            Self::Owners => ("I27", "a driven run belongs to an engine that has a row"),
            Self::Versions => ("I31", "a run's version is registered"),
            Self::Reasons => ("I32", "a waiting run has a wait that can end"),
            Self::Log => ("I35", "versions of a stream have no gap and end at its head"),
            Self::Positions => ("I37", "positions grow, and none is beyond the workspace's head"),
            Self::Places => ("I38", "no reaction is beyond the head of its stream"),
            Self::Workspaces => ("I44", "a run, its gates and its input belong to one workspace"),
            Self::Staged => ("I47", "a run counts the operations that it has staged"),
            Self::Answers => ("I48", "every run that a receipt names can be found"),
            Self::Guards => ("I49", "a stream is closed if its last event is a guard"),
            Self::Counts => ("I68", "a gate that counts its waiting runs counts all of them"),
            Self::Closings => ("I80", "a gate that a run has closed is due when it opens"),
            Self::StepPools => {
                ("I73", "a step is in a pool only while its run is driven, or queued for it")
            }
            Self::Adaptive => ("I95", "an adaptive limit has counted no more than its calls"),
            Self::Names => ("I97", "no two waits of a workspace are for the same name"),
            Self::Shares => ("I70", "of each value that waits, the first run has its tag"),
            Self::Deliveries => {
                ("I91", "a deferred event that waits has a chore that is due at its time")
            }
            Self::Schedules => ("I52", "a schedule plans its next occurrence, a paused one none"),
        }
    }
}

/// Violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The violated rule.
    pub rule: Rule,
    /// The violation in words, with the values of the rows.
    pub text: String,
}

/// Result of a check of all rows.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The number of rows.
    pub rows: u64,
    /// The number of checks per rule.
    pub checked: BTreeMap<Rule, u64>,
    /// The violations, at most the first thousand.
    pub findings: Vec<Finding>,
    /// The total number of violations.
    pub found: u64,
}

impl Report {
    /// Counts a successful check.
    fn good(&mut self, rule: Rule) {
        self.check(rule, true, String::new);
    }

    /// Counts a check of a rule, and records a violation.
    fn check(&mut self, rule: Rule, holds: bool, wrong: impl FnOnce() -> String) {
        *self.checked.entry(rule).or_default() += 1;
        if !holds {
            self.found += 1;
            if self.findings.len() < MAX_FINDINGS {
                self.findings.push(Finding { rule, text: wrong() });
            }
        }
    }
}

/// Check of all rows as they were at one point in time.
#[derive(Debug, Default)]
pub struct Checkup {
    report: Report,
    flow: Flow,
    streams: Streams,
    deliveries: Deliveries,
    only: Option<Workspace>,
    /// Retention may have deleted runs that ended before this time.
    kept_since: Option<Timestamp>,
    /// Whether the rules that need definitions are skipped.
    no_limits: bool,
    defs: BTreeMap<Workspace, Vec<Def>>,
}

impl Checkup {
    /// Creates a check of one workspace.
    pub fn of(ws: Workspace) -> Self {
        Self { only: Some(ws), ..Self::default() }
    }

    /// Creates a check without the rules that need the definitions: limits of gates, and due times
    /// of queues. For a caller that checks limits itself.
    pub fn without_limits() -> Self {
        Self { no_limits: true, ..Self::default() }
    }

    /// Sets the time before which retention may have deleted ended runs. By default all ended runs
    /// must exist.
    #[must_use]
    pub fn kept_since(self, moment: Timestamp) -> Self {
        Self { kept_since: Some(moment), ..self }
    }

    /// Checks the next row.
    pub fn see(&mut self, row: &Row) {
        if let Some(horizon) = retention::horizon(row) {
            // In key order this row comes before all receipts, for which `kept_since` is needed.
            // Older databases do not have it.
            self.kept_since = self.kept_since.max(Some(horizon));
        }
        if self.only.as_ref().is_some_and(|only| !self.is_of(row, only)) {
            return;
        }
        self.report.rows += 1;
        let report = &mut self.report;
        match row {
            Row::Gate(gate) => self.flow.gate(report, gate),
            Row::Run(run) => self.flow.run(report, run),
            Row::Engine(engine) => self.flow.engine(report, engine.id),
            Row::Stream(stream) => self.streams.stream(stream),
            Row::Subscription(sub) => self.streams.sub(report, sub),
            Row::Schedule(schedule) => plans(report, schedule),
            Row::LogHead(head) => self.streams.log_head(head),
            Row::Def(def) => {
                self.flow.def(report, def.lane);
                if !self.no_limits {
                    self.defs.entry(def.ws.clone()).or_default().push(def.clone());
                }
            }
            Row::Chore(chore) => self.deliveries.chore(chore),
            Row::Event(event) => {
                self.flow.event(report, event);
                self.deliveries.event(report, event);
            }
            Row::Ended(ended) => self.flow.ended(report, ended),
            Row::Item(item) => self.flow.item(item.run),
            Row::Wait(wait) => self.flow.wait(report, wait),
            Row::WaitPath(path) => self.flow.wait_path(report, path),
            Row::StreamEventRow(event) => self.streams.logged(report, event),
            Row::Staged(staged) => self.flow.staged(report, staged.run),
            Row::StreamSnapshot(snapshot) => self.streams.snapshot(report, snapshot),
            // The runs that a receipt names were live when it was written, or were created later:
            // if retention has deleted nothing since, they exist.
            Row::Receipt(receipt) if self.kept_since.is_none_or(|since| receipt.at >= since) => {
                self.flow.receipt(report, receipt);
            }
            Row::Session(_)
            | Row::Epoch(_)
            | Row::Step(_)
            | Row::Signal(_)
            | Row::Receipt(_)
            | Row::Reply(_)
            | Row::ApiKey(_)
            | Row::Chunk(_)
            | Row::Audit(_) => {}
        }
    }

    fn is_of(&self, row: &Row, only: &Workspace) -> bool {
        let ws = match row {
            Row::Gate(row) => return row.key.is_of(only),
            Row::Item(row) => return self.flow.knows(row.run),
            Row::Step(row) => return self.flow.knows(row.run),
            Row::Signal(row) => return self.flow.knows(row.run),
            Row::Chunk(row) => return self.flow.knows(row.run),
            Row::Staged(row) => return self.flow.knows(row.run),
            Row::StreamSnapshot(row) => return self.streams.knows(row.stream),
            // Engines belong to all workspaces.
            Row::Engine(_) => return true,
            Row::Chore(row) => &row.ws,
            Row::Schedule(row) => &row.ws,
            Row::Run(row) => &row.ws,
            Row::Session(row) => &row.ws,
            Row::Stream(row) => &row.ws,
            Row::Subscription(row) => &row.ws,
            Row::LogHead(row) => &row.ws,
            Row::Epoch(row) => &row.ws,
            Row::Def(row) => &row.ws,
            Row::Event(row) => &row.ws,
            Row::Ended(row) => &row.ws,
            Row::Wait(row) => &row.ws,
            Row::WaitPath(row) => &row.ws,
            Row::Receipt(row) => &row.ws,
            Row::StreamEventRow(row) => &row.ws,
            Row::Reply(row) => &row.ws,
            Row::ApiKey(row) => &row.ws,
            Row::Audit(row) => &row.ws,
        };
        ws == only
    }

    /// Does the checks that need all rows, and returns the report.
    pub fn conclude(mut self) -> Report {
        self.flow.conclude(&mut self.report, self.defs);
        self.streams.conclude(&mut self.report);
        self.deliveries.conclude(&mut self.report);
        self.report.findings.sort_by_key(|finding| finding.rule);
        self.report
    }
}

/// Checks that the next occurrence is later than the last one, and that a paused schedule has no
/// next occurrence.
fn plans(report: &mut Report, schedule: &Schedule) {
    let Schedule { next, last, paused_at, .. } = schedule;
    let forward = next.is_none() || next > last;
    report.check(Rule::Schedules, forward && (next.is_none() || paused_at.is_none()), || {
        let Schedule { id, workflow, .. } = schedule;
        format!(
            "schedule `{id}` of `{workflow}`: next occurrence {next:?}, last {last:?}, paused at \
             {paused_at:?}"
        )
    });
}

#[cfg(test)]
mod tests;
