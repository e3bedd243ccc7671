//! Journal of a round: everything that was observed from outside the servers.
//!
//! All times are of one clock, in microseconds, because all processes of a round are on one
//! machine.

use std::{fmt::Write as _, sync::Mutex};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate_store::{Clock as _, SystemClock};

/// Returns the time of the machine's clock in microseconds.
pub(crate) fn now() -> i64 {
    SystemClock.now().micros()
}

/// Answer to a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// `started`, `queued`, `coalesced`, …; `taken` for an accepted action; for a refusal the error
    /// code.
    pub(crate) outcome: String,
    pub(crate) run: Option<String>,
    pub(crate) event: Option<String>,
    /// Version of the stream or session after the request.
    pub(crate) version: Option<i64>,
    /// Run that appends a chat message; `run` is the run of its reply.
    #[serde(default)]
    pub(crate) appended: Option<String>,
}

/// A request of the load. All its attempts have the same idempotency key.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Request {
    /// Number in the request's payload. It is unique, and increases in the order of sending.
    pub(crate) n: u64,
    pub(crate) lane: String,
    /// Value of the key of the lane's controls, or the session or stream.
    pub(crate) key: String,
    pub(crate) sent: i64,
    /// Time of the last answer, or of the caller's disconnect.
    pub(crate) done: i64,
    pub(crate) tries: u32,
    /// `None` if the caller disconnected before the answer.
    pub(crate) answer: Option<Answer>,
    /// Answer to the same request, sent a second time.
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
    /// State of the run in an answer with status 200; `None` if the action was refused or not
    /// answered.
    pub(crate) state: Option<String>,
}

/// How a call to the service ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CallEnd {
    /// The service sent this status.
    Answered(u16),
    /// The calling server closed the connection.
    Dropped,
    /// The call was still in progress when the journal was closed.
    #[default]
    Open,
}

/// A call to the recording service.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) id: u64,
    pub(crate) lane: String,
    /// Revision of the definition, from the URL that was called.
    pub(crate) revision: u64,
    pub(crate) run: String,
    /// Value of the header `Idempotency-Key`.
    pub(crate) effect: String,
    pub(crate) version: String,
    /// Incarnation of the calling server, found by its signature.
    pub(crate) server: String,
    /// Numbers of the requests in the call's payload.
    pub(crate) numbers: Vec<u64>,
    pub(crate) key: String,
    pub(crate) begin: i64,
    pub(crate) end: i64,
    pub(crate) how: CallEnd,
}

/// An injected fault.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Fault {
    pub(crate) kind: String,
    /// Name of the affected incarnation; empty if all servers were affected.
    pub(crate) server: String,
    pub(crate) from: i64,
    /// End of the fault: the process runs again, or the database answers again.
    pub(crate) to: i64,
}

/// State of a run at the end of the round, from the API.
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
    /// Id of the call whose answer became the run's output.
    pub(crate) output: Option<u64>,
}

/// Content of a stream, or of a list in a session, in order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Log {
    pub(crate) lane: String,
    pub(crate) key: String,
    /// Version and request number of each entry. In a session's list the version is the index.
    pub(crate) entries: Vec<(i64, u64)>,
}

/// Final state from the API, read after all load and faults have ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct World {
    pub(crate) runs: Vec<Run>,
    pub(crate) events: Vec<String>,
    pub(crate) logs: Vec<Log>,
    /// Paths of ids from answers that the API does not find, with the status.
    pub(crate) unresolved: Vec<String>,
    /// Runs that have not ended.
    pub(crate) live: Vec<String>,
    /// Leaks: gates with holders or queued runs, windows and buffers with events, findings of the
    /// doctor.
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
    /// Answers that no request of the load should get.
    pub(crate) unexpected: Vec<String>,
}

/// Journal that many tasks share.
pub(crate) type Shared = Mutex<Journal>;

impl Journal {
    /// Returns the journal as text: one line per record, ordered by time where records have one.
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
