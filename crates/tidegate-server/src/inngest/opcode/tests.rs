//! Bodies as the SDKs send them: JS 3.54 and 4.24 and Python 0.5.19 observed, Go as described.

use std::time::Duration;

use super::*;

const ONE: &str = "fe05bcdcdc4928012781a5f1a2a77cbb5398e106";
const NAP: &str = "c2640f79b4ed481b838ce4ad75330aa3f825d4d9";

fn now() -> Timestamp {
    Timestamp::parse_rfc3339("2029-12-31T00:00:00Z").unwrap()
}

/// Reads the body of an answer with one operation.
fn only(body: &str) -> Operation {
    read_with(body, Again::default())
}

fn read_with(body: &str, again: Again) -> Operation {
    let mut all = read(body, again, now()).unwrap_or_else(|error| panic!("{error}: {body}"));
    assert_eq!(all.len(), 1, "{body}");
    all.remove(0)
}

fn json(text: &str) -> Payload {
    Payload::parse(text.as_bytes(), 1000).unwrap()
}

#[test]
fn a_step_that_ran_has_its_value() {
    let js = format!(
        r#"[{{"id":"{ONE}","op":"StepRun","name":"one","opts":{{}},"displayName":"one","userland":{{"id":"one"}},"data":{{"n": 1.10}},"timing":{{"a":1795114538841000000,"b":0}}}}]"#
    );
    let py = format!(
        r#"[{{"displayName": "one", "id": "{ONE}", "name": "one", "op": "StepRun", "opts": null, "userland": {{"id": "one", "index": null}}, "data": 1}}]"#
    );
    let go = format!(r#"[{{"op":"StepRun","id":"{ONE}","name":"one","data":"x"}}]"#);
    let old = format!(r#"[{{"op":"Step","id":"{ONE}","displayName":"one","data":true}}]"#);
    let checkpoint = format!(
        r#"[{{"id":"{ONE}","mode":"sync","op":"StepRun","name":"one","displayName":"one","userland":{{"id":"one"}},"opts":{{}},"rawArgs":["one",null],"hashedId":"{ONE}","promise":{{}},"fulfilled":true,"middleware":{{"stepInfo":{{"hashedId":"{ONE}"}}}},"data":null}}]"#
    );
    let void = format!(r#"[{{"op":"StepRun","id":"{ONE}","displayName":"one"}}]"#);
    for (body, step, expected) in [
        (js, "one", r#"{"n": 1.10}"#),
        (py, "one", "1"),
        (go, ONE, r#""x""#),
        (old, "one", "true"),
        (checkpoint, "one", "null"),
        (void, "one", "null"),
    ] {
        let read = only(&body);
        assert_eq!(read.step, step);
        let Opcode::Ran(value) = read.opcode else { panic!("{body}: {:?}", read.opcode) };
        assert_eq!(value.as_str(), expected, "{body}");
    }
}

#[test]
fn an_error_says_whether_the_step_is_tried_again() {
    let thrown = format!(
        r#"[{{"id":"{ONE}","op":"StepError","displayName":"one","opts":{{}},"error":{{"name":"TypeError","message":"boom","stack":"TypeError: boom\n at x","cause":{{"name":"Error","message":"inner"}},"__serialized":true}},"data":null}}]"#
    );
    let failed = thrown.replace("StepError", "StepFailed");
    let again = |never, after| Again { never, after };
    let minute = Some(Duration::from_secs(60));
    for (body, again, expected) in [
        (&thrown, again(false, None), "again"),
        (&thrown, again(false, minute), "later"),
        (&thrown, again(true, None), "final"),
        // JS 3 says of a final failure that it may be retried.
        (&failed, again(false, None), "final"),
        (&failed, again(false, minute), "final"),
    ] {
        let (error, kind) = match read_with(body, again).opcode {
            Opcode::Threw(error) if error == error.clone().retry_after(Duration::from_secs(60)) => {
                (error, "later")
            }
            Opcode::Threw(error) => (error, "again"),
            Opcode::Failed(error) => (error, "final"),
            other => panic!("{other:?}"),
        };
        assert_eq!((kind, error.code(), error.message()), (expected, "TypeError", "boom"));
        assert_eq!(error.is_fatal(), expected == "final");
    }
}

#[test]
fn a_sleep_has_its_end() {
    let at = Until::At(Timestamp::parse_rfc3339("2030-01-02T03:04:05Z").unwrap());
    for (fields, expected) in [
        (r#""name":"2s","opts":{}"#, Until::In(2000)),
        (r#""name":"2030-01-02T03:04:05.000Z","opts":{}"#, at),
        (r#""name": "2030-01-02T03:04:05.000Z", "opts": null"#, at),
        (r#""name":"nap","opts":{"duration":"1m30s"}"#, Until::In(90_000)),
        (r#""name":"","opts":{}"#, Until::In(0)),
    ] {
        let body = format!(
            r#"[{{"displayName":"nap","op":"Sleep","id":"{NAP}",{fields},"userland":{{"id":"nap"}},"data":null}}]"#
        );
        let read = only(&body);
        assert_eq!(read.step, "nap");
        assert!(matches!(read.opcode, Opcode::Sleep(end) if end == expected), "{body}: {read:?}");
    }
}

#[test]
fn waits_calls_and_signals_have_their_options() {
    let event = |filter: Option<&str>| {
        let filter = filter.map(str::to_owned);
        let until = Some(Until::In(3_600_000));
        Opcode::Event(EventWait { name: "x/y".to_owned(), filter, until })
    };
    let call = |until| {
        let data = json(r#"{"z":1}"#);
        Opcode::Invoke(Invocation { function: "app-plain".to_owned(), data, until })
    };
    let signal = |replaces| {
        let until = Some(Until::In(300_000));
        Opcode::Signal(SignalWait { name: "sig-1".to_owned(), replaces, until })
    };
    let matching = Some("event.data.id == async.data.id");
    for (fields, expected) in [
        (r#""op":"WaitForEvent","name":"x/y","opts":{"timeout":"1h"}"#, event(None)),
        (
            r#""op":"WaitForEvent","name":"x/y","opts":{"timeout":"1h","if":"event.data.id == async.data.id"}"#,
            event(matching),
        ),
        (
            r#""op": "WaitForEvent", "name": "x/y", "opts": {"if": "event.data.id == async.data.id", "timeout": "1h"}"#,
            event(matching),
        ),
        (
            r#""op":"WaitForEvent","name":"w","opts":{"event":"x/y","timeout":"1h0m0s","if":null}"#,
            event(None),
        ),
        (
            r#""op":"InvokeFunction","opts":{"payload":{"data":{"z":1}},"function_id":"app-plain","timeout":"1m"}"#,
            call(Some(Until::In(60_000))),
        ),
        (
            r#""op": "InvokeFunction", "opts": {"function_id": "app-plain", "payload": {"data": {"z":1}, "v": null}, "timeout": null}"#,
            call(None),
        ),
        (
            r#""op":"WaitForSignal","name":"sig-1","opts":{"signal":"sig-1","timeout":"5m"}"#,
            signal(false),
        ),
        (
            r#""op":"WaitForSignal","opts":{"signal":"sig-1","timeout":"5m","conflict":"replace"}"#,
            signal(true),
        ),
        (r#""op":"StepPlanned","opts":{"type":"step.sendEvent"}"#, Opcode::Planned),
        (r#""op":"RunComplete","data":[0]"#, Opcode::Complete(json("[0]"))),
        (r#""op":"DiscoveryRequest""#, Opcode::Discover),
    ] {
        let read = only(&format!(r#"[{{"id":"{ONE}",{fields}}}]"#));
        assert_eq!(format!("{:?}", read.opcode), format!("{expected:?}"));
    }
}

#[test]
fn a_race_is_told_by_its_members() {
    let body = |mode: &str| format!(r#"[{{"id":"{ONE}","op":"StepPlanned","opts":{mode}}}]"#);
    assert!(only(&body(r#"{"parallelMode": "race"}"#)).race);
    assert!(only(&body(r#"{"parallelMode": "Race"}"#)).race, "as Go writes it");
    assert!(!only(&body("{}")).race && !only(&body("null")).race);
}

#[test]
fn a_request_for_the_app_keeps_its_parts() {
    let fetch =
        |opts: &str| match only(&format!(r#"[{{"id":"{ONE}","op":"Gateway","opts":{opts}}}]"#))
            .opcode
        {
            Opcode::Fetch(fetch) => fetch,
            other => panic!("{other:?}"),
        };
    let sent = r#"{"url":"http://h/x","method":"PUT","headers":{"a":"b"},"body":"hi"}"#;
    let it = fetch(sent);
    assert_eq!(
        (it.url.as_str(), it.method.as_str(), it.body.as_str()),
        ("http://h/x", "PUT", "hi")
    );
    assert_eq!(it.headers["a"], "b");
    let it = fetch(r#"{"url":"http://h/x","body":{"a":1}}"#);
    assert_eq!((it.method.as_str(), it.body.as_str(), it.model), ("GET", r#"{"a":1}"#, false));
}

#[test]
fn the_key_of_a_model_is_sent_as_its_maker_wants_it() {
    for (format, header, expected) in [
        ("openai-chat", "authorization", Some("Bearer k")),
        ("anthropic", "x-api-key", Some("k")),
        ("anthropic", "anthropic-version", Some("2023-06-01")),
        ("gemini", "authorization", None),
    ] {
        let body = format!(
            r#"[{{"id":"{ONE}","op":"AIGateway","opts":{{"type":"step.ai.infer","url":"http://h/v1","headers":{{}},"auth_key":"k","format":"{format}","body":{{"m":1}}}}}}]"#
        );
        let Opcode::Fetch(it) = only(&body).opcode else { panic!("{body}") };
        assert_eq!(it.headers.get(header).map(String::as_str), expected, "{format}");
        assert!(it.model && it.method == "POST" && it.body == r#"{"m":1}"#);
        assert!(!format!("{it:?}").contains('k'), "a secret must not be in a log");
    }
}

#[test]
fn a_bad_answer_is_refused_by_name() {
    let of = |op: &str| {
        format!(r#"[{{"id":"{ONE}","displayName":"one","userland":{{"id":"one"}},{op}}}]"#)
    };
    let deep = format!(r#""op":"StepRun","data":{}1{}"#, "[".repeat(200), "]".repeat(200));
    for (body, code, named) in [
        (of(r#""op":"DeferAdd","opts":{}"#), "UnknownOpcode", "`DeferAdd` (step `one`)"),
        ("{}".to_owned(), "BadAnswer", "not a list"),
        ("<html>".to_owned(), "BadAnswer", "not a list"),
        (r#"[{"op":"StepRun"}]"#.to_owned(), "BadAnswer", "missing field `id`"),
        (of(r#""op":"Sleep","name":"soon""#), "BadAnswer", "`soon` is neither a duration"),
        (of(r#""op":"Sleep","name":"999d""#), "BadAnswer", "more than 366 days ahead"),
        (of(r#""op":"WaitForEvent","opts":{}"#), "BadAnswer", "`event` is missing"),
        (of(r#""op":"InvokeFunction","opts":{}"#), "BadAnswer", "`function_id` is missing"),
        (of(&deep), "BadAnswer", ""),
    ] {
        let error = read(&body, Again::default(), now()).expect_err(&body);
        assert_eq!(error.code(), code, "{error}");
        assert!(error.message().contains(named), "{error}");
        assert_eq!(error.is_fatal(), code == "UnknownOpcode", "{error}");
    }
}
