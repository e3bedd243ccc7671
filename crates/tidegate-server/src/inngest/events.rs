//! `POST /e/{key}`: events of the SDKs.

use axum::{
    Json,
    body::Bytes,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Number, Value, json, value::RawValue};
use tidegate::Engine;
use tidegate_core::{
    event::{MAX_EVENTS, NewEvent},
    idempotency_key::IdempotentRequest,
    json::{MAX_EVENT_BYTES, Payload},
    time::Timestamp,
};

use super::{
    access::{Refused, SdkCaller},
    function::RESERVED,
};
use crate::keys::hash;

/// Maximum number of events in one request of an SDK.
const MOST: usize = 5000;

/// Header that is the same if an SDK repeats a request.
const SEED: &str = "x-inngest-event-id-seed";

/// Maximum length of the seed.
const MAX_SEED: usize = 255;

/// An event as an SDK sends it. Unknown members are ignored.
#[derive(Deserialize)]
struct EventBody<'a> {
    name: String,
    id: Option<Value>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    ts: Option<Number>,
    #[serde(borrow)]
    user: Option<&'a RawValue>,
    #[serde(borrow)]
    v: Option<&'a RawValue>,
    #[serde(borrow)]
    meta: Option<&'a RawValue>,
}

impl EventBody<'_> {
    /// Converts the event. One whose time is in the future is delivered at that time.
    fn read(self, now: Timestamp) -> Result<NewEvent, String> {
        if self.name.starts_with(RESERVED) {
            let name = &self.name;
            let rule = format!("names that begin with `{RESERVED}` are reserved");
            return Err(format!("event `{name}` cannot be sent: {rule}"));
        }
        let payload = |text: &str| {
            Payload::parse(text.as_bytes(), MAX_EVENT_BYTES)
                .map_err(|error| format!("event `{}`: {error}", self.name))
        };
        let data = payload(self.data.map_or("{}", RawValue::get))?;
        let attributes = self.attributes().map(|text| payload(&text)).transpose()?;
        let event = NewEvent { attributes, ..NewEvent::new(&self.name, data) };
        let dedupe_id = match self.id {
            Some(Value::String(id)) => Some(id).filter(|id| !id.is_empty()),
            Some(Value::Number(id)) => Some(id.to_string()),
            Some(Value::Null) | None => None,
            Some(_) => return Err(format!("event `{}`: id must be a text", event.name)),
        };
        let ts = self.ts.as_ref().and_then(milliseconds).filter(|ms| *ms != 0);
        let ts = ts.map(|ms| Timestamp::from_micros(ms.saturating_mul(1000)));
        let event = NewEvent { dedupe_id, ts, ..event };
        Ok(match ts.filter(|ts| *ts > now) {
            Some(later) => event.deliver_at(later),
            None => event,
        })
    }
}

impl EventBody<'_> {
    /// Returns the further members of the event as an object; none if it has none. The id is one of
    /// them: functions get the sender's own.
    fn attributes(&self) -> Option<String> {
        let id = self.id.as_ref().filter(|id| id.as_str().is_none_or(|id| !id.is_empty()));
        let id = id.filter(|id| !id.is_null()).map(Value::to_string);
        let members = [
            ("id", id.as_deref()),
            ("user", self.user.map(RawValue::get)),
            ("v", self.v.map(RawValue::get)),
            ("meta", self.meta.map(RawValue::get)),
        ];
        let members = members.into_iter().filter_map(|(name, text)| {
            let text = text.filter(|text| *text != "null")?;
            Some(format!("\"{name}\":{text}"))
        });
        let members: Vec<String> = members.collect();
        (!members.is_empty()).then(|| format!("{{{}}}", members.join(",")))
    }
}

/// Returns whole milliseconds; SDKs may send a fraction.
#[expect(clippy::cast_possible_truncation, reason = "a cast of a larger number saturates")]
fn milliseconds(number: &Number) -> Option<i64> {
    number.as_i64().or_else(|| number.as_f64().map(|ms| ms.trunc() as i64))
}

/// `POST /e/{key}`.
pub(super) async fn post(
    caller: SdkCaller,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Refused> {
    let events = read(&body, caller.engine.now()).map_err(Refused::config)?;
    let seed = headers.get(SEED).map(HeaderValue::as_bytes).filter(|seed| !seed.is_empty());
    if seed.is_some_and(|seed| seed.len() > MAX_SEED) {
        return Err(Refused::config(format!("{SEED} must have at most {MAX_SEED} bytes")));
    }
    let engine = once(caller.engine, seed);
    let mut ids = Vec::with_capacity(events.len());
    for chunk in events.chunks(MAX_EVENTS) {
        let posted = engine.send_all(chunk.to_vec()).await?;
        ids.extend(posted.into_iter().map(|posted| posted.id.to_string()));
    }
    Ok(Json(json!({ "ids": ids, "status": StatusCode::OK.as_u16() })))
}

/// Returns an engine on which a repeated request has no further effect, and gets the same ids.
fn once(engine: Engine, seed: Option<&[u8]>) -> Engine {
    let Some(seed) = seed else { return engine };
    let id = hash([b"POST\n/e\n", seed].concat());
    // The body is not compared: the SDKs change only the seed between requests that differ.
    let request = IdempotentRequest { ws: engine.workspace().into(), id, hash: hash("") };
    engine.once(request).0
}

fn read(body: &[u8], now: Timestamp) -> Result<Vec<NewEvent>, String> {
    let bad = |error| format!("the body must be an event or a list of events: {error}");
    let text = body.trim_ascii_start();
    let events: Vec<EventBody<'_>> = if text.starts_with(b"[") {
        serde_json::from_slice(text).map_err(bad)?
    } else {
        vec![serde_json::from_slice(text).map_err(bad)?]
    };
    if events.len() > MOST {
        return Err(format!("a request must have at most {MOST} events, got {}", events.len()));
    }
    events.into_iter().map(|event| event.read(now)).collect()
}

/// `OPTIONS /e/{key}`: pages may send events.
pub(super) async fn preflight() -> Response {
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (header::ACCESS_CONTROL_ALLOW_METHODS, "POST, OPTIONS"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "*"),
        (header::ACCESS_CONTROL_MAX_AGE, "86400"),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

#[cfg(test)]
mod tests {
    use tidegate_core::{json::Payload, run::record::Until, time::Timestamp};

    use super::read;

    const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

    #[test]
    fn an_event_is_read_as_the_sdks_send_it() {
        let body = r#"[{"name":"a/b","data":{"n":1.10,"big":12345678901234567890},"ts":1699999999999,
            "id":"x","user":{"id":1},"v":"1","meta":{}},{"name":"c","data":null,"ts":0,"id":""},
            {"name":"d","ts":1700000000001},{"name":"e","ts":1700000000000.5}]"#;
        let [first, second, later, at_once] = &read(body.as_bytes(), NOW).unwrap()[..] else {
            panic!("four events")
        };
        assert_eq!(first.data.as_str(), r#"{"n":1.10,"big":12345678901234567890}"#);
        assert_eq!((first.dedupe_id.as_deref(), first.deliver), (Some("x"), None));
        assert_eq!(first.ts, Some(Timestamp::from_micros(1_699_999_999_999_000)));
        assert_eq!((second.data.as_str(), &second.dedupe_id, second.ts), ("{}", &None, None));
        let attributes = first.attributes.as_ref().map(Payload::as_str);
        assert_eq!(attributes, Some(r#"{"id":"x","user":{"id":1},"v":"1","meta":{}}"#));
        assert_eq!(second.attributes, None);
        let tomorrow = Timestamp::from_micros(1_700_000_000_001_000);
        assert_eq!(later.deliver, Some(Until::At(tomorrow)));
        assert_eq!(at_once.deliver, None);
        assert_eq!(read(b" {\"name\":\"a\"}", NOW).unwrap().len(), 1);
        assert_eq!(read(b"[]", NOW).unwrap().len(), 0);
    }

    #[test]
    fn what_is_no_event_is_refused() {
        let many = format!("[{}]", vec![r#"{"name":"a"}"#; 5001].join(","));
        for (body, said) in [
            ("", "must be an event or a list"),
            ("{}", "missing field `name`"),
            (r#"[{"name":"a"},3]"#, "must be an event or a list"),
            (r#"{"name":"inngest/function.failed"}"#, "names that begin with `inngest/`"),
            (r#"{"name":"a","id":{}}"#, "event `a`: id must be a text"),
            (&many, "at most 5000 events, got 5001"),
        ] {
            let error = read(body.as_bytes(), NOW).unwrap_err();
            assert!(error.contains(said), "{body}: {error}");
        }
    }
}
