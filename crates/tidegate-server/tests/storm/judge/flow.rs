//! Rules of flow control: limits are not exceeded, and runs start in order.

use std::collections::{BTreeMap, BTreeSet};

use super::{Evidence, Kind, LATE_NOTICE, Violation};
use crate::{
    journal::{Call, Request},
    lanes::{self, CLOCK, Lane},
};

/// The number of different runs with a call in progress never exceeds the limit of their key or of
/// their lane.
pub(super) fn concurrency(evidence: &Evidence<'_>, found: &mut Vec<Violation>) {
    let mut gates: BTreeMap<(&str, Option<&str>), Vec<&Call>> = BTreeMap::new();
    for call in &evidence.journal.calls {
        gates.entry((&call.lane, Some(&call.key))).or_default().push(call);
        gates.entry((&call.lane, None)).or_default().push(call);
    }
    for ((name, key), calls) in gates {
        let Some(lane) = lanes::find(name) else { continue };
        let limit = if key.is_some() { lane.per_key } else { lane.overall };
        if limit < calls.len() {
            let at = format!("{name} of {}", key.unwrap_or("all keys"));
            crowd(evidence, &at, limit, &calls, found);
        }
    }
}

/// Reports every time at which more runs than the limit have a call in progress.
fn crowd(
    evidence: &Evidence<'_>,
    at: &str,
    limit: usize,
    calls: &[&Call],
    found: &mut Vec<Violation>,
) {
    let mut calls: Vec<_> =
        calls.iter().filter_map(|call| Some((*call, evidence.counts_until(call)?))).collect();
    calls.sort_by_key(|(call, _)| call.begin);
    let mut inside: Vec<(&Call, i64)> = Vec::new();
    for (call, end) in calls {
        inside.retain(|(_, end)| *end > call.begin);
        inside.push((call, end));
        let runs: BTreeSet<&str> = inside.iter().map(|(call, _)| call.run.as_str()).collect();
        if runs.len() > limit {
            let lines = inside.iter().map(|(call, end)| {
                format!(
                    "call in progress until {end}: {}",
                    serde_json::to_string(call).unwrap_or_default()
                )
            });
            found.push(Violation {
                kind: Kind::OverLimit,
                text: format!("{at}: {} runs at once, the limit is {limit}: {runs:?}", runs.len()),
                lines: lines.collect(),
            });
        }
    }
}

/// Returns the runs of a lane by key, each with a time.
fn moments<'a>(
    evidence: &Evidence<'a>,
    lane: &Lane,
    moment: impl Fn(&'a crate::journal::Run) -> Option<i64>,
) -> BTreeMap<&'a str, Vec<(i64, &'a str)>> {
    let mut keys: BTreeMap<&str, Vec<(i64, &str)>> = BTreeMap::new();
    for run in evidence.runs.values().filter(|run| run.lane == lane.name) {
        let call = evidence.first_call(&run.id);
        if let (Some(call), Some(at)) = (call, moment(run)) {
            keys.entry(&call.key).or_default().push((at, &run.id));
        }
    }
    for all in keys.values_mut() {
        all.sort_unstable();
    }
    keys
}

/// The first starts of the runs of one key keep the minimum interval, and no run makes a call
/// before its start.
pub(super) fn throttle(evidence: &Evidence<'_>, found: &mut Vec<Violation>) {
    for lane in lanes::called().filter(|lane| lane.gap > 0) {
        for (key, starts) in moments(evidence, lane, |run| run.started) {
            for pair in starts.windows(2).filter(|pair| pair[1].0 - pair[0].0 < lane.gap) {
                let apart = pair[1].0 - pair[0].0;
                let text = format!(
                    "{} of {key}: {} starts {apart} µs after {}, the minimum is {}",
                    lane.name, pair[1].1, pair[0].1, lane.gap
                );
                evidence.report(found, Kind::OverLimit, pair[1].1, text);
            }
            for (at, run) in starts {
                if evidence.first_call(run).is_some_and(|call| call.begin < at) {
                    let text =
                        format!("{} of {key}: {run} makes a call before its start", lane.name);
                    evidence.report(found, Kind::OverLimit, run, text);
                }
            }
        }
    }
}

/// In no interval are more runs of one key admitted than the burst and the refill allow.
pub(super) fn rate(evidence: &Evidence<'_>, found: &mut Vec<Violation>) {
    for lane in lanes::called() {
        let Some((limit, per)) = lane.rate else { continue };
        for (key, admitted) in moments(evidence, lane, |run| Some(run.queued)) {
            for (from, (first, _)) in admitted.iter().enumerate() {
                for (to, (last, run)) in admitted.iter().enumerate().skip(from) {
                    let count = i64::try_from(to - from + 1).unwrap_or(i64::MAX);
                    let most = limit + (last - first) * limit / per;
                    if count > most {
                        let text = format!(
                            "{} of {key}: {count} runs admitted in {} µs, the limit is {most}",
                            lane.name,
                            last - first
                        );
                        evidence.report(found, Kind::OverLimit, run, text);
                    }
                }
            }
        }
    }
}

/// A request, its run, and the time of the run's first call.
type Started<'a> = (&'a Request, &'a str, i64);

/// If a request was answered before another one of the same key was sent, its run starts first.
/// Occurrences of a schedule start in order, too.
pub(super) fn order(evidence: &Evidence<'_>, found: &mut Vec<Violation>) {
    let mut queues: BTreeMap<(&str, &str), Vec<Started<'_>>> = BTreeMap::new();
    for (request, lane) in evidence.answered().filter(|it| it.1.ordered) {
        let run = request.answer.as_ref().and_then(|answer| answer.run.as_deref());
        let Some(run) = run.filter(|run| !evidence.acted(run, &["pause", "cancel"])) else {
            continue;
        };
        if let Some(call) = evidence.first_call(run) {
            let entry = (request, run, call.begin);
            queues.entry((lane.name, &request.key)).or_default().push(entry);
        }
    }
    for ((lane, key), mut queue) in queues {
        queue.sort_by_key(|(request, ..)| request.sent);
        for (at, (later, run, begin)) in queue.iter().enumerate() {
            let passed = queue[..at]
                .iter()
                .find(|(earlier, _, first)| earlier.done < later.sent && first > begin);
            if let Some((earlier, other, _)) = passed {
                let (n, m) = (later.n, earlier.n);
                let text =
                    format!("{lane}, {key}: request {n} ({run}) starts before {m} ({other})");
                evidence.report(found, Kind::OutOfOrder, run, text);
            }
        }
    }
    let calls = evidence.calls.values().filter_map(|calls| calls.first());
    let mut ticks: Vec<_> = calls.filter(|call| call.lane == CLOCK.name).collect();
    ticks.sort_by_key(|call| call.begin);
    for pair in ticks.windows(2).filter(|pair| pair[0].numbers > pair[1].numbers) {
        let text = format!("{} starts before the run of an earlier occurrence", pair[0].run);
        evidence.report(found, Kind::OutOfOrder, &pair[0].run, text);
    }
}

/// A run that was cancelled is not called any more. A run that was paused before its first call is
/// not called until it is resumed.
pub(super) fn held_back(evidence: &Evidence<'_>, found: &mut Vec<Violation>) {
    for act in evidence.journal.acts.iter().filter(|act| act.state.is_some()) {
        let from = act.done + LATE_NOTICE;
        let until = match (act.what.as_str(), act.state.as_deref()) {
            ("cancel", Some("cancelled")) => i64::MAX,
            ("pause", Some("paused" | "queued")) => {
                let all = evidence.journal.acts.iter();
                let resumes = all.filter(|it| it.run == act.run && it.what == "resume");
                let next = resumes.map(|it| it.sent).filter(|sent| *sent >= act.done).min();
                next.unwrap_or(i64::MAX)
            }
            _ => continue,
        };
        // Not a violation after a fault: a server without a connection may continue until its lease
        // expires.
        let wrong = evidence.calls_of(&act.run).iter().find(|call| {
            (from..until).contains(&call.begin)
                && !evidence.disturbed(&call.server, act.sent, call.begin)
        });
        if wrong.is_some() {
            let text = format!("{} makes a call although `{}` was acknowledged", act.run, act.what);
            evidence.report(found, Kind::OutOfOrder, &act.run, text);
        }
        let ended = evidence.runs.get(act.run.as_str()).map(|run| run.state.as_str());
        if until == i64::MAX && act.what == "cancel" && ended.is_some_and(|it| it != "cancelled") {
            let text = format!(
                "{}: cancel was acknowledged, but its state is {}",
                act.run,
                ended.unwrap_or_default()
            );
            evidence.report(found, Kind::Lost, &act.run, text);
        }
    }
}

/// All calls of a run have the same version, and all calls of a version have the same definition.
pub(super) fn versions(evidence: &Evidence<'_>, found: &mut Vec<Violation>) {
    let mut revisions: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for (run, calls) in &evidence.calls {
        for call in calls {
            let known = *revisions.entry((&call.lane, &call.version)).or_insert(call.revision);
            let first = calls[0];
            if known != call.revision || first.version != call.version {
                let text = format!("{run}: the version or its definition changed between calls");
                evidence.report(found, Kind::OutOfOrder, run, text);
            }
        }
    }
}
