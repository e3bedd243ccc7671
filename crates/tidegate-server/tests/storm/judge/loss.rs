//! Rules of loss: acknowledged requests are not lost.

use std::collections::BTreeMap;

use super::{Evidence, Kind, Violation};
use crate::{
    journal::{CallEnd, Run},
    lanes::{CLOCK, CLOCK_SECONDS, Fold, Way},
};

/// Outcomes that promise that the request gets its own run.
const PROMISES: [&str; 4] = ["started", "queued", "replaced", "taken"];

/// Every acknowledged request that was promised a run has one, which ended as the request and the
/// operator's actions require.
pub(super) fn requests(evidence: &Evidence<'_>, found: &mut Vec<Violation>) {
    for (request, lane) in evidence.answered() {
        let Some(answer) = &request.answer else { continue };
        if !PROMISES.contains(&answer.outcome.as_str()) || lane.fold != Fold::None {
            continue;
        }
        let Some(run) = &answer.run else {
            let text = format!(
                "{} request {} was {}, but got no run id",
                lane.name, request.n, answer.outcome
            );
            evidence.report(found, Kind::Lost, "", text);
            continue;
        };
        let Some(ended) = evidence.runs.get(run.as_str()) else {
            let text =
                format!("{run} of {} request {} is not in the list of runs", lane.name, request.n);
            evidence.report(found, Kind::Lost, run, text);
            continue;
        };
        if let Some(wrong) = wrong_end(evidence, ended, lane.cancels) {
            let text = format!("{run} of {} request {} {wrong}", lane.name, request.n);
            evidence.report(found, Kind::Lost, run, text);
        }
        let carried = evidence.calls_of(run).iter().all(|call| call.numbers == [request.n]);
        if !carried {
            let text = format!(
                "{run} of {} request {} called the service for another one",
                lane.name, request.n
            );
            evidence.report(found, Kind::Lost, run, text);
        }
    }
}

/// Returns the violation if a run ended in a state that nothing in the journal explains.
fn wrong_end(evidence: &Evidence<'_>, run: &Run, cancels: bool) -> Option<String> {
    match run.state.as_str() {
        "failed" => {
            let calls = evidence.calls_of(&run.id);
            let refused = calls.iter().any(|call| call.how == CallEnd::Answered(400));
            (!refused).then(|| format!("has failed, although no call was refused: {}", run.reason))
        }
        "cancelled" => {
            let asked = cancels || evidence.acted(&run.id, &["cancel"]);
            (!asked).then(|| format!("was cancelled without a cancel request: {}", run.reason))
        }
        // `completions` checks completed runs, and the judge reports live runs as stuck.
        _ => None,
    }
}

/// Every acknowledged request of a window or a buffer is in the run that its answer named. Of a
/// window that keeps only the last request, the run may have a later one instead.
pub(super) fn folds(evidence: &Evidence<'_>, found: &mut Vec<Violation>) {
    for (request, lane) in evidence.answered().filter(|it| it.1.fold != Fold::None) {
        let Some(run) = request.answer.as_ref().and_then(|answer| answer.run.as_deref()) else {
            let text = format!("{} request {}: the answer has no run id", lane.name, request.n);
            evidence.report(found, Kind::Lost, "", text);
            continue;
        };
        let wrong = match evidence.runs.get(run) {
            None => Some("is not in the list of runs".to_owned()),
            Some(ended) => wrong_end(evidence, ended, lane.cancels),
        };
        let calls = evidence.calls_of(run);
        let carried = calls.iter().all(|call| match lane.fold {
            Fold::All => call.numbers.contains(&request.n),
            Fold::Last | Fold::None => call.numbers.iter().all(|n| *n >= request.n),
        });
        let wrong = wrong
            .or_else(|| (!carried).then(|| "called the service without this request".to_owned()));
        if let Some(wrong) = wrong {
            let text = format!("{run} of {} request {} {wrong}", lane.name, request.n);
            evidence.report(found, Kind::Lost, run, text);
        }
    }
}

/// Every completed run has called the service, and its output is the service's answer.
pub(super) fn completions(evidence: &Evidence<'_>, found: &mut Vec<Violation>) {
    for run in evidence.runs.values().filter(|run| run.state == "completed") {
        let calls = evidence.calls_of(&run.id);
        let good = calls.iter().any(|call| {
            call.how == CallEnd::Answered(200) && run.output.is_none_or(|id| id == call.id)
        });
        if !good {
            let text = format!(
                "{} of {} completed, but no successful call matches its output",
                run.id, run.lane
            );
            evidence.report(found, Kind::Lost, &run.id, text);
        }
    }
}

/// Every acknowledged event is in the list of events.
pub(super) fn events(evidence: &Evidence<'_>, found: &mut Vec<Violation>) {
    let known: std::collections::BTreeSet<_> = evidence.journal.world.events.iter().collect();
    for (request, lane) in evidence.answered() {
        let event = request.answer.as_ref().and_then(|answer| answer.event.as_ref());
        if let Some(event) = event.filter(|event| !known.contains(event)) {
            let text = format!(
                "{event} of {} request {} is not in the list of events",
                lane.name, request.n
            );
            evidence.report(found, Kind::Lost, event, text);
        }
    }
}

/// No occurrence of the schedule is missing.
pub(super) fn occurrences(evidence: &Evidence<'_>, found: &mut Vec<Violation>) {
    let calls = evidence.journal.calls.iter().filter(|call| call.lane == CLOCK.name);
    let mut planned: Vec<u64> = calls.flat_map(|call| call.numbers.iter().copied()).collect();
    planned.sort_unstable();
    planned.dedup();
    for pair in planned.windows(2).filter(|pair| pair[1] - pair[0] != CLOCK_SECONDS) {
        let text = format!("an occurrence is missing between {} s and {} s", pair[0], pair[1]);
        evidence.report(found, Kind::Lost, "", text);
    }
}

/// Every acknowledged commit is in its stream or session, once and at its version. A commit that
/// was refused is not.
pub(super) fn logs(evidence: &Evidence<'_>, found: &mut Vec<Violation>) {
    let mut places: BTreeMap<(&str, u64), Vec<i64>> = BTreeMap::new();
    for log in &evidence.journal.world.logs {
        for (version, n) in &log.entries {
            places.entry((&log.lane, *n)).or_default().push(*version);
        }
        for (at, pair) in log.entries.windows(2).enumerate() {
            if pair[1].0 != pair[0].0 + 1 {
                let text =
                    format!("{} {}: a version is missing after entry {at}", log.lane, log.key);
                evidence.report(found, Kind::Lost, "", text);
            }
        }
    }
    for ((lane, n), versions) in places.iter().filter(|it| it.1.len() > 1) {
        let text = format!("{lane} request {n} is committed more than once, at {versions:?}");
        evidence.report(found, Kind::Doubled, "", text);
    }
    for (request, lane) in evidence.answered() {
        if !matches!(lane.way, Way::Stream | Way::Session) {
            continue;
        }
        let Some(answer) = &request.answer else { continue };
        let place = places.get(&(lane.name, request.n)).and_then(|it| it.first());
        let said = format!("{} request {} was answered {}", lane.name, request.n, answer.outcome);
        match (answer.outcome.as_str(), place) {
            ("committed", None) => {
                evidence.report(
                    found,
                    Kind::Lost,
                    "",
                    format!("{said}, but it is not in the stream or session"),
                );
            }
            ("committed", Some(at)) if answer.version.is_some_and(|version| version != *at) => {
                let text = format!("{said} at version {:?}, but it is at {at}", answer.version);
                evidence.report(found, Kind::Lost, "", text);
            }
            ("conflict", Some(at)) => {
                evidence.report(found, Kind::Doubled, "", format!("{said}, but it is at {at}"));
            }
            _ => {}
        }
    }
}
