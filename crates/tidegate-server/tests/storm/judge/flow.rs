//! Limits are not exceeded, and order is kept.

use std::collections::{BTreeMap, BTreeSet};

use super::{Evidence, Kind, LATE_NOTICE, Violation};
use crate::{
    journal::{Call, Request},
    lanes::{self, CLOCK, Lane},
};

/// Calls of different runs in progress never exceed the limit of their key and of their lane.
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

/// Reports each time at which more runs than the limit are in progress.
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
                format!("counts until {end}: {}", serde_json::to_string(call).unwrap_or_default())
            });
            found.push(Violation {
                kind: Kind::OverLimit,
                text: format!("{at}: {} at once, at most {limit}: {runs:?}", runs.len()),
                lines: lines.collect(),
            });
        }
    }
}

/// Runs of a lane by key, each with a time.
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

/// First starts of one key keep the minimum interval, and no call comes before its start.
pub(super) fn throttle(evidence: &Evidence<'_>, found: &mut Vec<Violation>) {
    for lane in lanes::called().filter(|lane| lane.gap > 0) {
        for (key, starts) in moments(evidence, lane, |run| run.started) {
            for pair in starts.windows(2).filter(|pair| pair[1].0 - pair[0].0 < lane.gap) {
                let apart = pair[1].0 - pair[0].0;
                let text = format!(
                    "{} of {key}: {} starts {apart} µs after {}, at least {}",
                    lane.name, pair[1].1, pair[0].1, lane.gap
                );
                evidence.report(found, Kind::OverLimit, pair[1].1, text);
            }
            for (at, run) in starts {
                if evidence.first_call(run).is_some_and(|call| call.begin < at) {
                    let text = format!("{} of {key}: {run} calls before its start", lane.name);
                    evidence.report(found, Kind::OverLimit, run, text);
                }
            }
        }
    }
}

/// In no interval are more runs of one key admitted than burst and refill allow.
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
                            "{} of {key}: {count} admitted in {} µs, at most {most}",
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

/// Request, its run, and the time of the run's first call.
type Started<'a> = (&'a Request, &'a str, i64);

/// A request that was answered before another request of its key was sent starts before it.
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
                let text = format!("{lane} of {key}: {n} ({run}) starts before {m} ({other})");
                evidence.report(found, Kind::OutOfOrder, run, text);
            }
        }
    }
    let calls = evidence.calls.values().filter_map(|calls| calls.first());
    let mut ticks: Vec<_> = calls.filter(|call| call.lane == CLOCK.name).collect();
    ticks.sort_by_key(|call| call.begin);
    for pair in ticks.windows(2).filter(|pair| pair[0].numbers > pair[1].numbers) {
        let text = format!("{} starts before an earlier occurrence", pair[0].run);
        evidence.report(found, Kind::OutOfOrder, &pair[0].run, text);
    }
}

/// A run that was cancelled, or paused before its first call, is not called until it is resumed.
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
        // A disconnected server may continue until its lease expires.
        let wrong = evidence.calls_of(&act.run).iter().find(|call| {
            (from..until).contains(&call.begin)
                && !evidence.disturbed(&call.server, act.sent, call.begin)
        });
        if wrong.is_some() {
            let text = format!("{} is called after `{}` was answered", act.run, act.what);
            evidence.report(found, Kind::OutOfOrder, &act.run, text);
        }
        let ended = evidence.runs.get(act.run.as_str()).map(|run| run.state.as_str());
        if until == i64::MAX && act.what == "cancel" && ended.is_some_and(|it| it != "cancelled") {
            let text = format!("{} was cancelled, and is {}", act.run, ended.unwrap_or_default());
            evidence.report(found, Kind::Lost, &act.run, text);
        }
    }
}

/// A run keeps the version it started with, and a version keeps its definition.
pub(super) fn versions(evidence: &Evidence<'_>, found: &mut Vec<Violation>) {
    let mut revisions: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for (run, calls) in &evidence.calls {
        for call in calls {
            let known = *revisions.entry((&call.lane, &call.version)).or_insert(call.revision);
            let first = calls[0];
            if known != call.revision || first.version != call.version {
                let text = format!("{run} changes its version, or its definition");
                evidence.report(found, Kind::OutOfOrder, run, text);
            }
        }
    }
}
