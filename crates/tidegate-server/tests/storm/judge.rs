//! Judge: finds violations of the guarantees in a journal.
//!
//! The judge queries no server. It knows only the guarantees that are promised to users. Exceptions
//! for faults are documented where they apply: a call of a server counts until that server was
//! killed or frozen, and a call may be repeated only if a fault happened in between.

mod chat;
mod flow;
mod loss;
mod repeat;

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use crate::{
    journal::{Call, CallEnd, Fault, Journal, Request, Run},
    lanes::{self, Lane},
};

/// Kind of violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Kind {
    Lost,
    Doubled,
    OverLimit,
    OutOfOrder,
    Stuck,
    Leaked,
    Unresolved,
    /// An answer that no request of the load should get.
    Unexpected,
}

impl Kind {
    pub(crate) const ALL: [Self; 8] = [
        Self::Lost,
        Self::Doubled,
        Self::OverLimit,
        Self::OutOfOrder,
        Self::Stuck,
        Self::Leaked,
        Self::Unresolved,
        Self::Unexpected,
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Lost => "lost",
            Self::Doubled => "doubled",
            Self::OverLimit => "over a limit",
            Self::OutOfOrder => "out of order",
            Self::Stuck => "stuck",
            Self::Leaked => "leaked",
            Self::Unresolved => "unresolved",
            Self::Unexpected => "unexpected",
        })
    }
}

/// A violation, with the records of the journal that show it.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    pub(crate) lines: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.text)?;
        self.lines.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

/// Maximum delay until the service notices a closed connection on a busy machine, in microseconds.
const LATE_NOTICE: i64 = 500_000;

/// Maximum delay until a server that continues after SIGSTOP notices that its lease has expired, in
/// microseconds.
const WAKING: i64 = 1_500_000;

/// Maximum delay until a server notices that the database is available again, and that its leases
/// have expired, in microseconds.
const RECONNECTING: i64 = 8_000_000;

/// Journal with indexes.
pub(crate) struct Evidence<'a> {
    journal: &'a Journal,
    /// Calls of each run, in the order of their start.
    calls: BTreeMap<&'a str, Vec<&'a Call>>,
    runs: BTreeMap<&'a str, &'a Run>,
}

/// Returns all violations in a journal.
pub(crate) fn judge(journal: &Journal) -> Vec<Violation> {
    let evidence = Evidence::new(journal);
    let mut found = Vec::new();
    for rule in [
        loss::requests,
        loss::folds,
        loss::completions,
        loss::events,
        loss::occurrences,
        loss::logs,
        repeat::numbers,
        repeat::keys,
        repeat::effects,
        repeat::calls,
        repeat::answers,
        chat::replies,
        chat::order,
        flow::concurrency,
        flow::throttle,
        flow::rate,
        flow::order,
        flow::held_back,
        flow::versions,
    ] {
        rule(&evidence, &mut found);
    }
    let world = &journal.world;
    for (kind, what) in [
        (Kind::Stuck, &world.live),
        (Kind::Leaked, &world.leaks),
        (Kind::Unresolved, &world.unresolved),
        (Kind::Unexpected, &journal.unexpected),
    ] {
        found.extend(what.iter().map(|text| {
            let lines = evidence.about(text);
            Violation { kind, text: text.clone(), lines }
        }));
    }
    found
}

impl<'a> Evidence<'a> {
    fn new(journal: &'a Journal) -> Self {
        let mut calls: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
        for call in &journal.calls {
            calls.entry(&call.run).or_default().push(call);
        }
        for calls in calls.values_mut() {
            calls.sort_by_key(|call| call.begin);
        }
        let runs = journal.world.runs.iter().map(|run| (run.id.as_str(), run)).collect();
        Self { journal, calls, runs }
    }

    fn calls_of(&self, run: &str) -> &[&'a Call] {
        self.calls.get(run).map_or(&[], Vec::as_slice)
    }

    /// Returns the first call of a run.
    fn first_call(&self, run: &str) -> Option<&'a Call> {
        self.calls_of(run).first().copied()
    }

    /// Returns the answered requests, with their lanes.
    fn answered(&self) -> impl Iterator<Item = (&'a Request, &'static Lane)> {
        let all = self.journal.requests.iter().filter(|request| request.answer.is_some());
        all.filter_map(|request| Some((request, lanes::find(&request.lane)?)))
    }

    fn faults_of(&self, server: &str) -> impl Iterator<Item = &'a Fault> {
        self.journal.faults.iter().filter(move |it| it.server.is_empty() || it.server == server)
    }

    /// Whether a fault affected a server between two times.
    fn disturbed(&self, server: &str, from: i64, to: i64) -> bool {
        self.faults_of(server).any(|fault| {
            let after = match fault.kind.as_str() {
                "freeze" => WAKING,
                "cut" | "crash" | "promotion" => RECONNECTING,
                _ => 0,
            };
            fault.from <= to && from <= fault.to + after
        })
    }

    /// Returns the time until which a call counts as in progress, or `None` if it does not count at
    /// all.
    ///
    /// A killed server makes no more calls. A frozen server may lose its lease without noticing:
    /// its calls that are in progress, or that it sends before it notices, are not covered by the
    /// guarantee (exactly-once.md).
    fn counts_until(&self, call: &Call) -> Option<i64> {
        let mut end = match call.how {
            CallEnd::Answered(_) => call.end,
            CallEnd::Dropped => (call.end - LATE_NOTICE).max(call.begin),
            CallEnd::Open => i64::MAX,
        };
        for fault in self.journal.faults.iter().filter(|fault| fault.server == call.server) {
            match fault.kind.as_str() {
                "freeze" if (fault.from..=fault.to + WAKING).contains(&call.begin) => return None,
                "freeze" | "kill" if fault.from >= call.begin => end = end.min(fault.from),
                _ => {}
            }
        }
        // If this test process itself stalled, it does not know the exact time of the disconnect.
        let stalls = self.journal.faults.iter().filter(|fault| fault.kind == "stall");
        for stall in stalls.filter(|_| call.how == CallEnd::Dropped) {
            if (call.begin..=call.end).contains(&stall.from) {
                end = end.min(stall.from);
            }
        }
        Some(end)
    }

    /// Whether an operator has sent one of these actions for a run.
    fn acted(&self, run: &str, what: &[&str]) -> bool {
        self.journal.acts.iter().any(|act| act.run == run && what.contains(&act.what.as_str()))
    }

    /// Returns the records that contain a text, such as the id of a run.
    fn about(&self, text: &str) -> Vec<String> {
        let ids = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let Some(id) = ids.into_iter().find(|id| id.starts_with("run_") || id.starts_with("evt_"))
        else {
            return Vec::new();
        };
        let lines = self.journal.lines();
        lines
            .lines()
            .filter(|line| line.contains(id) && !line.starts_with("{\"end\""))
            .take(12)
            .map(str::to_owned)
            .collect()
    }

    fn report(&self, found: &mut Vec<Violation>, kind: Kind, id: &str, text: String) {
        found.push(Violation { kind, text, lines: self.about(id) });
    }
}
