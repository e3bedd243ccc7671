//! Lists of runs, newest first. A page begins after the last run of the page before, so that pages
//! stay consistent while runs arrive and end.

use std::collections::BTreeMap;

use crate::{
    draft::{Decided, Draft},
    id::{EventId, RunId, Seq},
    observe::events,
    reads::Scan,
    row::{Ending, Phase, PlannedGate, Row, RowKey, Run, Workspace},
    time::Timestamp,
};

/// Status of a run, as users see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStatus {
    /// The run was admitted and has not started, or waits for a slot.
    Queued,
    /// A worker drives the run.
    Running,
    /// The run waits for a time, an event, a signal, a child or its next attempt.
    Waiting,
    /// A user has paused the run.
    Paused,
    /// The run has ended with an output.
    Completed,
    /// The run has ended with an error.
    Failed,
    /// The run was cancelled.
    Cancelled,
}

impl RunStatus {
    /// All statuses.
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Running,
        Self::Waiting,
        Self::Paused,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// Returns the name of the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns the status of a live run; none if the run has ended and only its worker has not
    /// stopped yet.
    pub fn of(run: &Run) -> Option<Self> {
        match run.phase {
            Phase::Queued { .. } | Phase::Ready => Some(Self::Queued),
            Phase::Driven => Some(Self::Running),
            Phase::Waiting => Some(Self::Waiting),
            Phase::Paused => Some(Self::Paused),
            Phase::Stopping => None,
        }
    }

    /// Returns the status of a run that has ended.
    pub fn of_ending(ending: &Ending) -> Self {
        match ending {
            Ending::Completed { .. } => Self::Completed,
            Ending::Failed { .. } => Self::Failed,
            Ending::Cancelled { .. } => Self::Cancelled,
        }
    }

    fn has_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// Filter of a workspace's runs; an absent field matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Runs of this app.
    pub app: Option<String>,
    /// Runs of this workflow.
    pub workflow: Option<String>,
    /// Runs of this version.
    pub version: Option<u32>,
    /// Runs with this status.
    pub state: Option<RunStatus>,
    /// Runs of workflows whose name contains this text.
    pub text: Option<String>,
    /// Runs that this event or a batch with this event has started. They are found by an index.
    pub event: Option<EventId>,
    /// Live runs with a gate of this display key in the plan, entered or not. Filtered after
    /// reading.
    pub key: Option<String>,
    /// Runs that were admitted at this time or later. Filtered after reading.
    pub from: Option<Timestamp>,
    /// Runs that were admitted before this time. Filtered after reading.
    pub to: Option<Timestamp>,
}

impl RunFilter {
    /// Whether some rows are dropped after they were read.
    fn is_filtered(&self) -> bool {
        let lives = self.state.is_some_and(|state| !state.has_ended());
        lives || self.key.is_some() || self.from.is_some() || self.to.is_some()
    }

    /// Whether a run is so old that no older run can match.
    fn is_past(&self, row: &Row) -> bool {
        let past = |from| run(row).is_some_and(|(_, at, _)| at.plus_ms(APART_MS) < from);
        self.from.is_some_and(past)
    }

    /// Whether a run matches the filters that are applied after reading.
    fn fits(&self, row: &Row) -> bool {
        // A run without a status has ended and is also found as an ended row.
        let Some((_, queued_at, Some(state))) = run(row) else { return false };
        let at_key = |key: &String| {
            let needs = row.as_run().map_or(&[][..], |run| &run.plan);
            let is =
                |need: &PlannedGate| need.gate.scope().is_some_and(|it| it.shown_key() == *key);
            needs.iter().any(is)
        };
        self.state.is_none_or(|wanted| wanted == state)
            && self.from.is_none_or(|from| queued_at >= from)
            && self.to.is_none_or(|to| queued_at < to)
            && self.key.as_ref().is_none_or(at_key)
    }
}

/// Maximum difference between the order of runs by number and by time. They differ only if the
/// clock steps; a clock that steps by more than this is not supported.
const APART_MS: u64 = 24 * 60 * 60 * 1000;

/// Number of live runs and of ended runs that are read for a filtered page.
const LOOK: u32 = 1000;

/// Page of runs.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPage {
    /// [`Row::Run`] and [`Row::Ended`], newest first. A page with fewer runs than requested is not
    /// always the last one.
    pub runs: Vec<Row>,
    /// The cursor of the next page; none on the last page.
    pub next: Option<Seq>,
}

/// Summary of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunSummary {
    /// The run.
    pub id: RunId,
    /// The workflow's app.
    pub app: String,
    /// The workflow.
    pub workflow: String,
    /// The version of the workflow.
    pub version: u32,
    /// The run's status.
    pub status: RunStatus,
    /// When the run was admitted.
    pub queued_at: Timestamp,
}

impl RunPage {
    /// Returns the summaries of the runs, newest first.
    pub fn summaries(&self) -> impl Iterator<Item = RunSummary> {
        self.runs.iter().filter_map(|row| {
            let (_, queued_at, status) = run(row)?;
            let (id, app, workflow, version) = if let Row::Ended(run) = row {
                (run.id, &run.app, &run.workflow, run.version)
            } else {
                row.as_run().map(|run| (run.id, &run.app, &run.workflow, run.version))?
            };
            let (app, workflow, status) = (app.clone(), workflow.clone(), status?);
            Some(RunSummary { id, app, workflow, version, status, queued_at })
        })
    }
}

/// Returns the newest runs with a number below `below`, at most `limit` of them. Takes no locks.
pub fn runs<E>(
    draft: &Draft,
    ws: &Workspace,
    which: &RunFilter,
    below: Option<Seq>,
    limit: u32,
) -> Decided<RunPage, E> {
    let lanes = draft.catalog(ws)?.lanes(which);
    let below = below.unwrap_or(Seq(i64::MAX));
    let look = if which.is_filtered() { limit.max(LOOK) } else { limit };
    let wanted = |state: RunStatus| which.state.is_none_or(|wanted| wanted == state);
    let ended = RunStatus::ALL.into_iter().filter(|state| state.has_ended() && wanted(*state));
    let ended = Scan::Ended(lanes.clone(), ended.map(RunStatus::as_str).collect(), below);
    let live = Scan::Live(lanes.clone(), below);
    // The lowest number that was read by a scan that reached its limit. There may be more runs
    // below it, so that the page must end here.
    let mut floor = None;
    let mut found: BTreeMap<Seq, &Row> = BTreeMap::new();
    let lives = which.state.is_none_or(|state| !state.has_ended());
    let ends = which.state.is_none_or(RunStatus::has_ended) && which.key.is_none();
    if let Some(event) = which.event {
        return of_event(draft, ws, which, event, &lanes, (below, limit));
    }
    for (scan, _) in [(live, lives), (ended, ends)].iter().filter(|(_, asked)| *asked) {
        let rows = draft.found(scan, look)?;
        let oldest = rows.last().filter(|row| !which.is_past(row));
        if rows.len() >= look as usize {
            floor = floor.max(oldest.and_then(|row| number(row)));
        }
        let shown = rows.into_iter().filter(|row| which.fits(row));
        found.extend(shown.filter_map(|row| Some((number(row)?, row))));
    }
    let above = |seq: &Seq| floor.is_none_or(|floor| *seq >= floor);
    let more = found.keys().filter(|seq| above(seq)).count() > limit as usize;
    let shown = found.into_iter().rev().filter(|(seq, _)| above(seq));
    let runs: Vec<Row> = shown.map(|(_, row)| row).take(limit as usize).cloned().collect();
    let next = if more { runs.last().and_then(number) } else { floor };
    Ok(RunPage { runs, next })
}

/// Returns the runs of an event. They are few and are read in one query.
fn of_event<E>(
    draft: &Draft,
    ws: &Workspace,
    which: &RunFilter,
    event: EventId,
    lanes: &[Seq],
    (below, limit): (Seq, u32),
) -> Decided<RunPage, E> {
    let entry = events::show(draft, ws, event)?;
    let rows = entry.map(|entry| entry.runs).unwrap_or_default().into_iter().rev();
    let of_lane = |row: &Row| run(row).is_some_and(|(lane, ..)| lanes.contains(&lane));
    let rows = rows.filter(|row| number(row).is_some_and(|seq| seq < below) && of_lane(row));
    let mut runs: Vec<Row> = rows.filter(|row| which.fits(row)).collect();
    let more = runs.len() > limit as usize;
    runs.truncate(limit as usize);
    let next = runs.last().filter(|_| more).and_then(number);
    Ok(RunPage { runs, next })
}

/// Returns a run's lane, its admission time and its status.
fn run(row: &Row) -> Option<(Seq, Timestamp, Option<RunStatus>)> {
    if let Row::Ended(run) = row {
        let status = RunStatus::of_ending(&run.ending);
        return Some((run.lane, run.queued_at, Some(status)));
    }
    row.as_run().map(|run| (run.lane, run.queued_at, RunStatus::of(run)))
}

/// Returns a run's number.
pub(crate) fn number(row: &Row) -> Option<Seq> {
    if let RowKey::Run(seq) | RowKey::Ended(seq) = row.key() { Some(seq) } else { None }
}
