//! Rules of repetition: effects are not repeated.

use std::collections::{BTreeMap, BTreeSet};

use super::{Evidence, Kind, Violation};
use crate::{journal::CallEnd, lanes};

/// Every request is in one run only.
pub(super) fn numbers(evidence: &Evidence<'_>, found: &mut Vec<Violation>) {
    let mut runs: BTreeMap<(&str, u64), BTreeSet<&str>> = BTreeMap::new();
    for call in &evidence.journal.calls {
        for n in &call.numbers {
            runs.entry((&call.lane, *n)).or_default().insert(&call.run);
        }
    }
    for ((lane, n), runs) in runs.into_iter().filter(|it| it.1.len() > 1) {
        let first = runs.first().copied().unwrap_or_default();
        let text = format!("{lane}: request {n} is in more than one run: {runs:?}");
        evidence.report(found, Kind::Doubled, first, text);
    }
}

/// In a lane with idempotency, a key has one run only.
pub(super) fn keys(evidence: &Evidence<'_>, found: &mut Vec<Violation>) {
    let mut runs: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for call in &evidence.journal.calls {
        if lanes::find(&call.lane).is_some_and(|lane| lane.once) {
            runs.entry((&call.lane, &call.key)).or_default().insert(&call.run);
        }
    }
    for ((lane, key), runs) in runs.into_iter().filter(|it| it.1.len() > 1) {
        let first = runs.first().copied().unwrap_or_default();
        let text = format!("{lane}: key {key} has more than one run: {runs:?}");
        evidence.report(found, Kind::Doubled, first, text);
    }
}

/// All calls of a run have the same idempotency key, which contains the id of the run. Every call
/// is signed by a known server.
pub(super) fn effects(evidence: &Evidence<'_>, found: &mut Vec<Violation>) {
    for call in &evidence.journal.calls {
        if call.effect != format!("{}:call", call.run) {
            let text =
                format!("a call of {} has the wrong idempotency key `{}`", call.run, call.effect);
            evidence.report(found, Kind::Doubled, &call.run, text);
        }
        if call.server.is_empty() {
            let text = format!("a call of {} is not signed by a known server", call.run);
            evidence.report(found, Kind::Doubled, &call.run, text);
        }
    }
}

/// A call is repeated only after it was refused, after its server closed the connection, or after a
/// fault.
///
/// On a slow machine a server may miss its heartbeat without an injected fault. It then stops its
/// calls before other servers may take over the runs.
pub(super) fn calls(evidence: &Evidence<'_>, found: &mut Vec<Violation>) {
    for (run, calls) in &evidence.calls {
        for pair in calls.windows(2) {
            let (first, second) = (pair[0], pair[1]);
            let refused = matches!(first.how, CallEnd::Answered(status) if status >= 500);
            let given_up = first.how == CallEnd::Dropped && first.end <= second.begin;
            // A server that continues after a freeze may send calls before it notices that it has
            // lost its lease.
            let waking = evidence.counts_until(second).is_none();
            if !refused
                && !given_up
                && !waking
                && !evidence.disturbed(&first.server, first.begin, second.begin)
            {
                let text =
                    format!("the call of {run} is repeated by {} without a fault", second.server);
                evidence.report(found, Kind::Doubled, run, text);
            }
        }
    }
}

/// A repeated request gets the same run and event as the first.
pub(super) fn answers(evidence: &Evidence<'_>, found: &mut Vec<Violation>) {
    for (request, lane) in evidence.answered() {
        let (Some(answer), Some(again)) = (&request.answer, &request.again) else { continue };
        // Errors are not compared: after an error the same idempotency key may start a new run, and
        // a repeated webhook delivery may be answered as deduped.
        if answer.status >= 400 || again.status >= 400 {
            continue;
        }
        if (&answer.run, &answer.event) != (&again.run, &again.event) {
            let text = format!(
                "{} request {}: first answer {answer:?}, second {again:?}",
                lane.name, request.n
            );
            let run = answer.run.as_deref().unwrap_or_default();
            evidence.report(found, Kind::Doubled, run, text);
        }
    }
}
