//! Body of a call: the event of a run and its memos, the results of its steps.
//!
//! Every part of the body is written once and copied into each call.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::json;
use sha2::{Digest as _, Sha256};
use tidegate_core::{
    json::Payload,
    row::{Event, Kind, RunError, StepKind},
};

use super::name::step_id;

/// Maximum size of events and memos in a call. Above it, the app fetches them.
const MAX_INLINE_BYTES: usize = 4 * 1024 * 1024;

/// Results of a run's steps, as an SDK gets them.
#[derive(Debug, Default)]
pub(super) struct Memos {
    /// Ids of the steps in the order in which they were recorded.
    stack: Vec<String>,
    /// Memos as JSON, by the step's id.
    by_step: BTreeMap<String, String>,
    bytes: usize,
}

impl Memos {
    /// Adds the memo of a recorded step. Returns `false` if it has one already, or if the step is not
    /// one of the app's.
    pub(super) fn add(
        &mut self,
        step: &str,
        kind: StepKind,
        result: &Result<Payload, RunError>,
    ) -> bool {
        let Some(memo) = memo(kind, result) else { return false };
        let id = step_id(step);
        if self.by_step.contains_key(&id) {
            return false;
        }
        self.bytes += id.len() + memo.len();
        self.stack.push(id.clone());
        self.by_step.insert(id, memo);
        true
    }

    /// Returns whether a step has a memo.
    pub(super) fn has(&self, step: &str) -> bool {
        self.by_step.contains_key(&step_id(step))
    }

    /// Returns the number of memos.
    pub(super) fn len(&self) -> usize {
        self.stack.len()
    }

    /// Returns the memos as a JSON object.
    pub(super) fn to_json(&self) -> String {
        let mut text = String::with_capacity(self.bytes + 8 * self.stack.len() + 2);
        text.push('{');
        for (n, (id, memo)) in self.by_step.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            write!(text, "{comma}{}:{memo}", json!(id)).expect("a String takes every text");
        }
        text.push('}');
        text
    }
}

/// Returns the memo of a step; `None` if the step is not one of an app.
fn memo(kind: StepKind, result: &Result<Payload, RunError>) -> Option<String> {
    Some(match (kind, result) {
        (StepKind::Sleep, _) => "null".to_owned(),
        // The event or the signal as it is; null after the timeout.
        (StepKind::Event, Ok(value)) => value.as_str().to_owned(),
        (StepKind::Signal, Ok(value)) if value.as_str() == "null" => "null".to_owned(),
        (StepKind::Run | StepKind::Invoke | StepKind::Send | StepKind::Signal, Ok(value)) => {
            format!(r#"{{"data":{}}}"#, value.as_str())
        }
        (
            StepKind::Run | StepKind::Invoke | StepKind::Send | StepKind::Signal | StepKind::Event,
            Err(error),
        ) => format!(r#"{{"error":{}}}"#, error_json(error)),
        (StepKind::State | StepKind::Compensate | StepKind::Commit | StepKind::Settle, _) => {
            return None;
        }
    })
}

/// Returns an error as the app has sent it; an error of the engine in the same form.
pub(super) fn error_json(error: &RunError) -> String {
    match &error.details {
        Some(details) if details.get("message").is_some() => details.to_string(),
        Some(_) | None => json!({ "name": error.code, "message": error.message }).to_string(),
    }
}

/// Parts of a call's body that are the same in all calls of an activation.
#[derive(Debug)]
pub(super) struct Frame {
    /// The event, and all events of a batch, as JSON.
    event: String,
    events: String,
    run: String,
    function: String,
    lease: String,
    max_attempts: u32,
    /// Whether the app can fetch what does not fit into a call.
    fetches: bool,
}

/// Parts of a call's body that differ between the calls of an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// Number of failed attempts before this one.
    pub(super) attempt: u32,
    /// Whether the app only plans steps, because others are under way.
    pub(super) plans_only: bool,
    /// Version of the protocol that the app's SDK has chosen; -1 before its first answer.
    pub(super) version: i32,
}

impl Frame {
    pub(super) fn new(
        events: &[Event],
        (run, lease): (String, String),
        function: &str,
        max_attempts: u32,
        fetches: bool,
    ) -> Self {
        let all: Vec<String> = events.iter().map(event_json).collect();
        let event = all.first().cloned().unwrap_or_else(|| "null".to_owned());
        let events = format!("[{}]", all.join(","));
        let function = function.to_owned();
        Self { event, events, run, function, lease, max_attempts, fetches }
    }

    /// Writes the body of a call.
    pub(super) fn body(&self, memos: &Memos, moment: Moment) -> String {
        let large = self.fetches && self.events.len() + memos.bytes > MAX_INLINE_BYTES;
        let steps = if large { "{}".to_owned() } else { memos.to_json() };
        let events = if large { "[]" } else { &self.events };
        let Moment { attempt, plans_only, version } = moment;
        let Self { event, run, function, lease, max_attempts, .. } = self;
        let (lease, stack, current) = (json!(lease), json!(memos.stack), memos.stack.len());
        format!(
            r#"{{"ctx":{{"attempt":{attempt},"disable_immediate_execution":{plans_only},"fn_id":"{function}","max_attempts":{max_attempts},"qi_id":{lease},"run_id":"{run}","stack":{{"current":{current},"stack":{stack}}},"use_api":{large}}},"event":{event},"events":{events},"steps":{steps},"use_api":{large},"version":{version}}}"#
        )
    }
}

/// Returns an event as an SDK gets it: events of the engine have the names of the protocol, and data
/// is an object.
pub(super) fn event_json(event: &Event) -> String {
    let data = |text: String| Payload::parse(text.as_bytes(), usize::MAX).ok();
    let (name, data) = match event.kind {
        Kind::Invoke => (Some("inngest/function.invoked"), None),
        Kind::Cron => (Some("inngest/scheduled.timer"), data(timer_data(&event.data))),
        Kind::Event | Kind::Request => (None, None),
    };
    let empty = (event.data.as_str() == "null").then(|| Payload::from_value(&json!({})));
    if name.is_none() && empty.is_none() {
        return event.whole().as_str().to_owned();
    }
    let name = name.map_or_else(|| event.name.clone(), str::to_owned);
    let data = data.or(empty).unwrap_or_else(|| event.data.clone());
    Event { name, data, ..event.clone() }.whole().as_str().to_owned()
}

/// Returns the data of the event that starts a cron run: the expression as its author wrote it.
fn timer_data(occurrence: &Payload) -> String {
    let schedule = occurrence.select(&["schedule".to_owned()]).unwrap_or("null");
    format!(r#"{{"cron":{schedule}}}"#)
}

/// Returns the UUID by which an SDK names a function in its checkpoints. Functions of the same name
/// have the same one, so nothing needs to be stored.
pub(super) fn function_uuid(app: &str, name: &str) -> String {
    let digest = Sha256::digest(format!("{app}\0{name}"));
    let hex = data_encoding::HEXLOWER.encode(&digest[..16]);
    // Version 8 (its bits are free) and the variant of RFC 9562.
    format!("{}-{}-8{}-a{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use tidegate_core::{row::Workspace, time::Timestamp};

    use super::*;

    fn json(text: &str) -> Payload {
        Payload::parse(text.as_bytes(), 10_000_000).unwrap()
    }

    fn event(kind: Kind, data: &str) -> Event {
        let mut event: Event = tidegate_testkit::sample::event(7, data);
        (event.kind, event.name, event.ws) = (kind, "a/b".to_owned(), Workspace::default());
        event.ts = Some(Timestamp::from_ms(1_700_000_000_123));
        event
    }

    /// INNGEST 3: the table of memos.
    #[test]
    fn each_kind_of_step_has_its_memo() {
        let thrown = r#"{"cause":{"a":1},"message":"x","name":"TypeError","stack":"at"}"#;
        let details = serde_json::from_str(thrown).ok();
        let of_app = RunError { details, ..RunError::new("TypeError", "x") };
        let engine = RunError::new("UnknownWorkflow", "no `x`");
        for (kind, result, expected) in [
            (StepKind::Run, Ok(json("[1, 2]")), r#"{"data":[1, 2]}"#.to_owned()),
            (StepKind::Run, Ok(json("null")), r#"{"data":null}"#.to_owned()),
            (StepKind::Invoke, Ok(json("1")), r#"{"data":1}"#.to_owned()),
            (StepKind::Run, Err(of_app.clone()), format!(r#"{{"error":{thrown}}}"#)),
            (
                StepKind::Invoke,
                Err(engine),
                r#"{"error":{"message":"no `x`","name":"UnknownWorkflow"}}"#.to_owned(),
            ),
            (StepKind::Sleep, Ok(json("null")), "null".to_owned()),
            (StepKind::Event, Ok(json(r#"{"name":"e"}"#)), r#"{"name":"e"}"#.to_owned()),
            (StepKind::Event, Ok(json("null")), "null".to_owned()),
            (
                StepKind::Signal,
                Ok(json(r#"{"signal":"s","data":1}"#)),
                r#"{"data":{"signal":"s","data":1}}"#.to_owned(),
            ),
            (StepKind::Signal, Ok(json("null")), "null".to_owned()),
        ] {
            assert_eq!(memo(kind, &result), Some(expected));
        }
        assert_eq!(memo(StepKind::State, &Ok(json("1"))), None);
    }

    #[test]
    fn a_memo_is_added_once_in_order() {
        let mut memos = Memos::default();
        let one = "fe05bcdcdc4928012781a5f1a2a77cbb5398e106";
        assert!(memos.add("one", StepKind::Run, &Ok(json("1"))));
        assert!(memos.add("a", StepKind::Run, &Ok(json("2"))));
        assert!(!memos.add(one, StepKind::Run, &Ok(json("3"))), "the same step by its id");
        assert!(memos.has("one") && memos.has(one) && !memos.has("two"));
        assert_eq!(memos.stack, [one, "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"]);
        let all: Value = serde_json::from_str(&memos.to_json()).unwrap();
        assert_eq!(all[one]["data"], 1);
    }

    #[test]
    fn the_body_has_what_every_sdk_needs() {
        let events = [event(Kind::Event, r#"{"n":1.10}"#), event(Kind::Event, "null")];
        let frame = Frame::new(&events, ("r-1".into(), "e:1".into()), "f", 5, true);
        let mut memos = Memos::default();
        memos.add("one", StepKind::Run, &Ok(json("1")));
        let text = frame.body(&memos, Moment { attempt: 2, plans_only: true, version: -1 });
        assert!(text.contains(r#""data":{"n":1.10}"#), "numbers keep their digits: {text}");
        let body: Value = serde_json::from_str(&text).unwrap();
        let id = "fe05bcdcdc4928012781a5f1a2a77cbb5398e106";
        let ctx = serde_json::json!({
            "attempt": 2, "disable_immediate_execution": true, "fn_id": "f", "max_attempts": 5,
            "qi_id": "e:1", "run_id": "r-1", "stack": { "current": 1, "stack": [id] },
            "use_api": false,
        });
        assert_eq!(body["ctx"], ctx);
        assert_eq!(body["event"]["ts"], 1_700_000_000_123_i64);
        assert_eq!((&body["event"], &body["version"]), (&body["events"][0], &Value::from(-1)));
        assert_eq!(body["events"][1]["data"], serde_json::json!({}));
        assert_eq!(body["steps"], serde_json::json!({ id: { "data": 1 } }));
    }

    #[test]
    fn a_large_state_is_left_out_for_those_who_can_fetch_it() {
        let mut memos = Memos::default();
        memos.add("one", StepKind::Run, &Ok(json(&format!("\"{}\"", "x".repeat(5_000_000)))));
        let moment = Moment { attempt: 0, plans_only: false, version: 2 };
        let events = [event(Kind::Event, "{}")];
        for fetches in [true, false] {
            let frame = Frame::new(&events, ("r".into(), "e".into()), "f", 5, fetches);
            let body: Value = serde_json::from_str(&frame.body(&memos, moment)).unwrap();
            assert_eq!(
                (&body["use_api"], &body["ctx"]["use_api"]),
                (&fetches.into(), &fetches.into())
            );
            assert_eq!(body["steps"].as_object().unwrap().is_empty(), fetches);
            assert_eq!(body["events"].as_array().unwrap().is_empty(), fetches);
            assert_eq!(body["ctx"]["stack"]["stack"].as_array().unwrap().len(), 1);
        }
    }

    #[test]
    fn events_of_the_engine_have_the_names_of_the_protocol() {
        let read = |kind, data| -> Value {
            serde_json::from_str(&event_json(&event(kind, data))).unwrap()
        };
        let timer = read(Kind::Cron, r#"{"schedule":"0 6 * * *","plannedAt":"…"}"#);
        assert_eq!(timer["name"], "inngest/scheduled.timer");
        assert_eq!(timer["data"], serde_json::json!({ "cron": "0 6 * * *" }));
        let invoked = read(Kind::Invoke, r#"{"z":1}"#);
        assert_eq!(
            (&invoked["name"], &invoked["data"]["z"]),
            (&"inngest/function.invoked".into(), &1.into())
        );
    }

    #[test]
    fn a_function_has_a_uuid() {
        let uuid = function_uuid("app", "fn");
        assert_eq!(uuid, function_uuid("app", "fn"));
        assert_ne!(uuid, function_uuid("ap", "pfn"));
        let parts: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert!(uuid[14..].starts_with('8') && uuid[19..].starts_with('a'), "{uuid}");
    }
}
