//! Lists of runs: newest first, by keyset, stable while runs arrive and end.

use std::collections::BTreeMap;

use crate::{
    draft::{Decided, Draft},
    id::Seq,
    reads::Scan,
    row::{Phase, Row, RowKey, Run, Workspace},
};

/// A run's state in the user's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Admitted and not started, or waiting for a slot.
    Queued,
    /// Being driven.
    Running,
    /// Waits for a time, an event, a signal, a child or its next attempt.
    Waiting,
    /// Stopped by hand.
    Paused,
    /// Ended with an output.
    Completed,
    /// Ended with an error.
    Failed,
    /// Ended from outside.
    Cancelled,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Running,
        Self::Waiting,
        Self::Paused,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The word.
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

    /// The state of a run that has not ended; none for one that has and is being stopped.
    pub fn of(run: &Run) -> Option<Self> {
        match run.phase {
            Phase::Line { .. } | Phase::Ready => Some(Self::Queued),
            Phase::Driven => Some(Self::Running),
            Phase::Waiting => Some(Self::Waiting),
            Phase::Paused => Some(Self::Paused),
            Phase::Stopping => None,
        }
    }

    fn has_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// Which runs of a workspace; all that is absent restricts nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Which {
    /// Of this app.
    pub app: Option<String>,
    /// Of this workflow.
    pub workflow: Option<String>,
    /// Of this version.
    pub version: Option<u32>,
    /// In this state.
    pub state: Option<State>,
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// [`Row::Run`] and [`Row::Ended`], newest first. They may be fewer than asked for although
    /// there are more.
    pub runs: Vec<Row>,
    /// Where the next part begins; none where this one is the last.
    pub next: Option<Seq>,
}

/// The newest runs below a number, at most `limit` of them. Locks nothing.
pub fn runs<E>(
    draft: &Draft,
    ws: &Workspace,
    which: &Which,
    below: Option<Seq>,
    limit: u32,
) -> Decided<Page, E> {
    let lanes = draft.catalog(ws)?.lanes(which);
    let below = below.unwrap_or(Seq(i64::MAX));
    let wanted = |state: State| which.state.is_none_or(|wanted| wanted == state);
    let ended = State::ALL.into_iter().filter(|state| state.has_ended() && wanted(*state));
    let ended = Scan::Ended(lanes.clone(), ended.map(State::as_str).collect(), below);
    let live = Scan::Live(lanes, below);
    // Below the lowest number that a full scan has seen, there may be more. What it has seen fills
    // the page, unless that was asked for in one state of those that live.
    let mut floor = None;
    let mut found: BTreeMap<Seq, &Row> = BTreeMap::new();
    let lives = which.state.is_none_or(|state| !state.has_ended());
    let ends = which.state.is_none_or(State::has_ended);
    for (scan, _) in [(live, lives), (ended, ends)].iter().filter(|(_, asked)| *asked) {
        let rows = draft.found(scan, limit)?;
        if rows.len() >= limit as usize {
            floor = floor.max(rows.last().and_then(|row| number(row)));
        }
        // A run that is being stopped has both rows: it has ended.
        let shown = |row: &&Row| row.as_run().is_none_or(|run| State::of(run).is_some_and(wanted));
        let shown = rows.into_iter().filter(shown);
        found.extend(shown.filter_map(|row| Some((number(row)?, row))));
    }
    let more = found.len() > limit as usize;
    let runs: Vec<Row> = found.into_values().rev().take(limit as usize).cloned().collect();
    let next = if more { runs.last().and_then(number) } else { floor };
    Ok(Page { runs, next })
}

fn number(row: &Row) -> Option<Seq> {
    if let RowKey::Run(seq) | RowKey::Ended(seq) = row.key() { Some(seq) } else { None }
}
