//! Journal of a round: everything observed from outside the servers.
//!
//! Times are the machine's clock in microseconds: all processes of a round live on one machine.

use std::{fmt::Write as _, sync::Mutex};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate_store::{Clock as _, SystemClock};

/// Clock of the machine in microseconds.
pub(crate) fn now() -> i64 {
    SystemClock.now().micros()
}

/// Answer to a caller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// `started`, `queued`, `coalesced`, …; `taken` for an action; the error's code for a refusal.
    pub(crate) outcome: String,
    pub(crate) run: Option<String>,
    pub(crate) event: Option<String>,
    /// Version of a stream or session.
    pub(crate) version: Option<i64>,
    /// Run that appends a message; `run` is that of its reply.
    #[serde(default)]
    pub(crate) appended: Option<String>,
}

/// Request of the load, with all its attempts, which have the same idempotency key.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Request {
    /// Number in its payload: unique, and increasing in the order of sending.
    pub(crate) n: u64,
    pub(crate) lane: String,
    /// The key of its lane's controls, or the session or stream.
    pub(crate) key: String,
    pub(crate) sent: i64,
    /// Time of the last answer, or of the disconnect.
    pub(crate) done: i64,
    pub(crate) tries: u32,
    /// `None`: the caller disconnected before the answer.
    pub(crate) answer: Option<Answer>,
    /// Answer to a repetition of the request.
    pub(crate) again: Option<Answer>,
}

/// Action of an operator on one run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Act {
    pub(crate) run: String,
    /// `cancel`, `pause` or `resume`.
    pub(crate) what: String,
    pub(crate) sent: i64,
    pub(crate) done: i64,
    /// State of the run in a 200 answer; `None` if it was refused or never answered.
    pub(crate) state: Option<String>,
}

/// End of a call to the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CallEnd {
    /// The service sent this status.
    Answered(u16),
    /// The caller closed the connection.
    Dropped,
    /// Still in progress when the journal was closed.
    #[default]
    Open,
}

/// Call to the recording service.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) id: u64,
    pub(crate) lane: String,
    /// Revision of the definition with this URL.
    pub(crate) revision: u64,
    pub(crate) run: String,
    /// The header `Idempotency-Key`.
    pub(crate) effect: String,
    pub(crate) version: String,
    /// Incarnation of the calling server, by its signature.
    pub(crate) server: String,
    /// Numbers of the requests in its payload.
    pub(crate) numbers: Vec<u64>,
    pub(crate) key: String,
    pub(crate) begin: i64,
    pub(crate) end: i64,
    pub(crate) how: CallEnd,
}

/// Injected fault.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Fault {
    pub(crate) kind: String,
    /// Affected incarnation; empty for all.
    pub(crate) server: String,
    pub(crate) from: i64,
    /// End of the fault: the process was running again, or the database answered.
    pub(crate) to: i64,
}

/// Run at the end of the round, from the API.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) id: String,
    pub(crate) lane: String,
    pub(crate) version: u64,
    pub(crate) state: String,
    pub(crate) queued: i64,
    pub(crate) started: Option<i64>,
    pub(crate) reason: String,
    pub(crate) replaced_by: Option<String>,
    /// Id of the call whose answer is the run's output.
    pub(crate) output: Option<u64>,
}

/// Stream, or list of a session, in order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Log {
    pub(crate) lane: String,
    pub(crate) key: String,
    /// Version and number; versions of a session's list are its indexes.
    pub(crate) entries: Vec<(i64, u64)>,
}

/// Final state from the API, after all load and faults have ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct World {
    pub(crate) runs: Vec<Run>,
    pub(crate) events: Vec<String>,
    pub(crate) logs: Vec<Log>,
    /// Ids from answers that do not resolve, with the status.
    pub(crate) unresolved: Vec<String>,
    /// Runs that never ended.
    pub(crate) live: Vec<String>,
    /// Gates with holders or a queue, windows and buffers with events, findings of the doctor.
    pub(crate) leaks: Vec<String>,
}

/// Journal of a round.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Journal {
    pub(crate) requests: Vec<Request>,
    pub(crate) acts: Vec<Act>,
    pub(crate) calls: Vec<Call>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) world: World,
    /// Answers that no request of the load may get.
    pub(crate) unexpected: Vec<String>,
}

/// Journal that is shared by many tasks.
pub(crate) type Shared = Mutex<Journal>;

impl Journal {
    /// One line for each record, ordered by time where records have one.
    pub(crate) fn lines(&self) -> String {
        let mut lines: Vec<(i64, Value)> = Vec::new();
        lines.extend(self.requests.iter().map(|it| (it.sent, json!({ "request": it }))));
        lines.extend(self.acts.iter().map(|it| (it.sent, json!({ "act": it }))));
        lines.extend(self.calls.iter().map(|it| (it.begin, json!({ "call": it }))));
        lines.extend(self.faults.iter().map(|it| (it.from, json!({ "fault": it }))));
        lines.sort_by_key(|line| line.0);
        let World { runs, events, logs, unresolved, live, leaks } = &self.world;
        let rest = runs.iter().map(|it| json!({ "run": it }));
        let rest = rest.chain(logs.iter().map(|it| json!({ "log": it })));
        let rest = rest.chain(self.unexpected.iter().map(|it| json!({ "unexpected": it })));
        let end = json!({ "end": { "events": events, "unresolved": unresolved,
            "live": live, "leaks": leaks } });
        let all = lines.into_iter().map(|line| line.1).chain(rest).chain([end]);
        all.fold(String::new(), |mut text, line| {
            let _ = writeln!(text, "{line}");
            text
        })
    }

    /// Parses the output of [`lines`](Self::lines).
    pub(crate) fn read(text: &str) -> Self {
        let mut journal = Self::default();
        for line in text.lines() {
            let mut line: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
            let (kind, body) = line.iter_mut().next().unwrap();
            let body = body.take();
            match kind.as_str() {
                "request" => journal.requests.push(serde_json::from_value(body).unwrap()),
                "act" => journal.acts.push(serde_json::from_value(body).unwrap()),
                "call" => journal.calls.push(serde_json::from_value(body).unwrap()),
                "fault" => journal.faults.push(serde_json::from_value(body).unwrap()),
                "run" => journal.world.runs.push(serde_json::from_value(body).unwrap()),
                "log" => journal.world.logs.push(serde_json::from_value(body).unwrap()),
                "unexpected" => journal.unexpected.push(serde_json::from_value(body).unwrap()),
                _ => {
                    let list = |name: &str| serde_json::from_value(body[name].clone()).unwrap();
                    journal.world.events = list("events");
                    journal.world.unresolved = list("unresolved");
                    journal.world.live = list("live");
                    journal.world.leaks = list("leaks");
                }
            }
        }
        journal
    }
}
