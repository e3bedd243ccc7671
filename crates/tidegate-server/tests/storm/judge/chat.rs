//! Every appended message is answered once, after it and in order, also if its sender disconnects.

use std::collections::BTreeMap;

use super::{Evidence, Kind, Violation};
use crate::{
    journal::{Call, CallEnd},
    lanes::{self, APPEND, Way},
};

/// Calls of a conversation for one message.
#[derive(Default)]
struct Message<'a> {
    appends: Vec<&'a Call>,
    replies: Vec<&'a Call>,
}

/// Admission time of a message, its number, and the first call of its reply.
type Answered<'a> = (i64, u64, &'a Call);

/// All messages, by lane and number.
fn messages<'a>(evidence: &Evidence<'a>) -> BTreeMap<(&'a str, u64), Message<'a>> {
    let mut all: BTreeMap<(&str, u64), Message<'_>> = BTreeMap::new();
    for call in &evidence.journal.calls {
        let (name, appends) = match call.lane.strip_suffix(APPEND) {
            Some(name) => (name, true),
            None => (call.lane.as_str(), false),
        };
        if lanes::find(name).is_some_and(|lane| lane.way == Way::Chat) {
            for n in &call.numbers {
                let message = all.entry((name, *n)).or_default();
                if appends { message.appends.push(call) } else { message.replies.push(call) }
            }
        }
    }
    all
}

/// An appended message has a reply, which was called after it. That there is no second one is a
/// rule of all lanes: one number is in one run.
pub(super) fn replies(evidence: &Evidence<'_>, found: &mut Vec<Violation>) {
    for ((lane, n), Message { appends, replies }) in messages(evidence) {
        let good = appends.iter().filter(|call| call.how == CallEnd::Answered(200));
        let taken_in = good.map(|call| call.end).min();
        let completed = appends.iter().any(|call| {
            evidence.runs.get(call.run.as_str()).is_some_and(|run| run.state == "completed")
        });
        if completed && replies.is_empty() {
            let text = format!("{lane} {n} is in, and is not answered");
            let run = appends.first().map_or("", |call| &call.run);
            evidence.report(found, Kind::Lost, run, text);
        }
        let first = replies.iter().min_by_key(|call| call.begin);
        if let Some(first) = first.filter(|call| taken_in.is_none_or(|at| call.begin < at)) {
            let text = format!("{lane} {n} is answered by {} before it is in", first.run);
            evidence.report(found, Kind::OutOfOrder, &first.run, text);
        }
    }
}

/// Replies of one session start in the order in which their messages were admitted.
pub(super) fn order(evidence: &Evidence<'_>, found: &mut Vec<Violation>) {
    let mut sessions: BTreeMap<(&str, &str), Vec<Answered<'_>>> = BTreeMap::new();
    for ((lane, n), Message { appends, replies }) in messages(evidence) {
        let admitted = appends.first().and_then(|call| evidence.runs.get(call.run.as_str()));
        let first = replies.into_iter().min_by_key(|call| call.begin);
        if let (Some(admitted), Some(first)) = (admitted, first) {
            sessions.entry((lane, &first.key)).or_default().push((admitted.queued, n, first));
        }
    }
    for ((lane, key), mut all) in sessions {
        all.sort_by_key(|(admitted, n, _)| (*admitted, *n));
        for pair in all.windows(2) {
            let ((at, n, first), (later, m, second)) = (pair[0], pair[1]);
            if at < later && second.begin < first.begin {
                let text = format!("{lane} of {key}: {m} ({}) is answered before {n}", second.run);
                evidence.report(found, Kind::OutOfOrder, &second.run, text);
            }
        }
    }
}
