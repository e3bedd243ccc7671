//! Rules of chat: every appended message is answered once, after it was appended and in order, even
//! if its sender disconnects.

use std::collections::BTreeMap;

use super::{Evidence, Kind, Violation};
use crate::{
    journal::{Call, CallEnd},
    lanes::{self, APPEND, Way},
};

/// All calls for one message of a chat: those that append it, and those of its reply.
#[derive(Default)]
struct Message<'a> {
    appends: Vec<&'a Call>,
    replies: Vec<&'a Call>,
}

/// Admission time of a message, its number, and the first call of its reply.
type Answered<'a> = (i64, u64, &'a Call);

/// Returns all messages by lane and number.
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

/// Every appended message has a reply, whose call begins after the append. That it has no second
/// reply is checked for all lanes: a request number is in one run only.
pub(super) fn replies(evidence: &Evidence<'_>, found: &mut Vec<Violation>) {
    for ((lane, n), Message { appends, replies }) in messages(evidence) {
        let good = appends.iter().filter(|call| call.how == CallEnd::Answered(200));
        let taken_in = good.map(|call| call.end).min();
        let completed = appends.iter().any(|call| {
            evidence.runs.get(call.run.as_str()).is_some_and(|run| run.state == "completed")
        });
        if completed && replies.is_empty() {
            let text = format!("{lane}: message {n} is appended but has no reply");
            let run = appends.first().map_or("", |call| &call.run);
            evidence.report(found, Kind::Lost, run, text);
        }
        let first = replies.iter().min_by_key(|call| call.begin);
        if let Some(first) = first.filter(|call| taken_in.is_none_or(|at| call.begin < at)) {
            let text = format!(
                "{lane}: the reply to message {n}, {}, began before the append ended",
                first.run
            );
            evidence.report(found, Kind::OutOfOrder, &first.run, text);
        }
    }
}

/// The replies of a session start in the order in which their messages were admitted.
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
                let text = format!(
                    "{lane}, {key}: reply to {m} ({}) began before that to {n}",
                    second.run
                );
                evidence.report(found, Kind::OutOfOrder, &second.run, text);
            }
        }
    }
}
