//! `doctor`: what always holds, checked on all rows of one moment.
//!
//! Rows are shown one after another, in the order of [`RowKey`](crate::row::RowKey), so that no
//! more is kept of them than what is under way: what has ended is looked at and let go. The
//! simulator shows its rows to the same checks after every commit.

mod flow;
mod streams;

use std::collections::BTreeMap;

use crate::{
    retention,
    row::{Def, Row, Schedule, Workspace},
    time::Timestamp,
};

use self::{flow::Flow, streams::Streams};

/// More findings than this say nothing new: the rest is only counted.
const MAX_FINDINGS: usize = 1000;

/// One thing that is checked, with its number in `docs/spec/invariants.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// spec I2.
    Limits,
    /// spec I3.
    Phases,
    /// spec I4: holds.
    Holds,
    /// spec I4: windows and buffers.
    Folds,
    /// spec I4: waits.
    Waits,
    /// spec I6.
    Ends,
    /// spec I7.
    Lines,
    /// spec I10.
    Order,
    /// spec I17.
    Items,
    /// spec I27.
    Owners,
    /// spec I31.
    Versions,
    /// spec I32.
    Reasons,
    /// spec I35.
    Log,
    /// spec I37.
    Positions,
    /// spec I38.
    Places,
    /// spec I44.
    Workspaces,
    /// spec I47.
    Staged,
    /// spec I48.
    Answers,
    /// spec I49.
    Guards,
    /// spec I52.
    Schedules,
}

impl Rule {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 20] = [
        Self::Limits,
        Self::Phases,
        Self::Holds,
        Self::Folds,
        Self::Waits,
        Self::Ends,
        Self::Lines,
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
    ];

    /// Its number.
    pub fn number(self) -> &'static str {
        self.said().0
    }

    /// What holds.
    pub fn sentence(self) -> &'static str {
        self.said().1
    }

    fn said(self) -> (&'static str, &'static str) {
        match self {
            Self::Limits => ("I2", "no gate has more holders than any release has allowed"),
            Self::Phases => ("I3", "a run has the gates that its state asks for"),
            Self::Holds => ("I4", "gates and runs agree on who is inside and who waits"),
            Self::Folds => ("I4", "every window and buffer will be looked at, and has no run yet"),
            Self::Waits => ("I4", "every wait for an event is filed, and is somebody's"),
            Self::Ends => ("I6", "what has ended does not live"),
            Self::Lines => ("I7", "room and a line mean that something is due"),
            Self::Order => ("I10", "a run takes its gates in one order"),
            Self::Items => ("I17", "a batch has the events that it counts"),
            Self::Owners => ("I27", "a driven run is an engine's that is known"),
            Self::Versions => ("I31", "a run's version is registered"),
            Self::Reasons => ("I32", "a waiting run waits for what can come"),
            Self::Log => ("I35", "versions of a stream have no gap and end at its head"),
            Self::Positions => ("I37", "positions grow, and none is beyond the workspace's head"),
            Self::Places => ("I38", "no reaction is beyond the head of its stream"),
            Self::Workspaces => ("I44", "a run, its gates and its input are of one workspace"),
            Self::Staged => ("I47", "a run has staged what it counts"),
            Self::Answers => ("I48", "every run that a receipt names can be found"),
            Self::Guards => ("I49", "a stream is closed if its last event is a guard"),
            Self::Schedules => ("I52", "a schedule plans what is not over, a paused one nothing"),
        }
    }
}

/// Something that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What should.
    pub rule: Rule,
    /// What was seen.
    pub text: String,
}

/// What came of a look at all rows.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How many rows there are.
    pub rows: u64,
    /// How many things each rule was held against.
    pub checked: BTreeMap<Rule, u64>,
    /// What does not hold: the first thousand of it.
    pub findings: Vec<Finding>,
    /// How many findings there are in all.
    pub found: u64,
}

impl Report {
    /// Counts something that is as it should be.
    fn good(&mut self, rule: Rule) {
        self.check(rule, true, String::new);
    }

    /// Counts one more thing that a rule was held against, and what is wrong with it.
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

/// A look at all rows of one moment.
#[derive(Debug, Default)]
pub struct Checkup {
    report: Report,
    flow: Flow,
    streams: Streams,
    only: Option<Workspace>,
    /// Ended runs that are older may have been deleted.
    kept_since: Option<Timestamp>,
    /// The rules that need definitions are left out.
    no_limits: bool,
    defs: BTreeMap<Workspace, Vec<Def>>,
}

impl Checkup {
    /// A look at what is one workspace's.
    pub fn of(ws: Workspace) -> Self {
        Self { only: Some(ws), ..Self::default() }
    }

    /// A look that leaves out what takes reading all definitions: limits, and lines that wait for
    /// nothing. For somebody who knows the limits better.
    pub fn without_limits() -> Self {
        Self { no_limits: true, ..Self::default() }
    }

    /// Says which ended runs retention must have kept: all that ended at this moment or later.
    /// Unless it is given, it must have kept all.
    #[must_use]
    pub fn kept_since(self, moment: Timestamp) -> Self {
        Self { kept_since: Some(moment), ..self }
    }

    /// Looks at the next row.
    pub fn see(&mut self, row: &Row) {
        if let Some(horizon) = retention::horizon(row) {
            // Comes before all receipts. Rows from before it was kept have none.
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
            Row::Event(event) => self.flow.event(report, event),
            Row::Ended(ended) => self.flow.ended(report, ended),
            Row::Item(item) => self.flow.item(item.run),
            Row::Wait(wait) => self.flow.wait(report, wait),
            Row::WaitPath(path) => self.flow.wait_path(report, path),
            Row::StreamEventRow(event) => self.streams.logged(report, event),
            Row::Staged(staged) => self.flow.staged(report, staged.run),
            Row::StreamSnapshot(snapshot) => self.streams.snapshot(report, snapshot),
            // The runs that it names were alive when it was written, or were to come.
            Row::Receipt(receipt) if self.kept_since.is_none_or(|since| receipt.at >= since) => {
                self.flow.receipt(report, receipt);
            }
            Row::Chore(_)
            | Row::Session(_)
            | Row::Epoch(_)
            | Row::Step(_)
            | Row::Signal(_)
            | Row::Receipt(_)
            | Row::Reply(_)
            | Row::ApiKey(_)
            | Row::Chunk(_) => {}
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
            // They are everybody's.
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
        };
        ws == only
    }

    /// Looks at what was left open until all rows were seen.
    pub fn conclude(mut self) -> Report {
        self.flow.conclude(&mut self.report, self.defs);
        self.streams.conclude(&mut self.report);
        self.report.findings.sort_by_key(|finding| finding.rule);
        self.report
    }
}

/// What is planned comes after what is over, and nothing is planned during a pause.
fn plans(report: &mut Report, schedule: &Schedule) {
    let Schedule { next, last, paused_at, .. } = schedule;
    let forward = next.is_none() || next > last;
    report.check(Rule::Schedules, forward && (next.is_none() || paused_at.is_none()), || {
        let Schedule { id, workflow, .. } = schedule;
        format!("`{id}` of `{workflow}` plans {next:?} after {last:?}, paused at {paused_at:?}")
    });
}

#[cfg(test)]
mod tests;
