//! Answers as the SDKs send them, and as other programs do.

use super::*;

const ONE: &str = "fe05bcdcdc4928012781a5f1a2a77cbb5398e106";

fn exchanged(status: u16, headers: &[(&str, &str)], body: &str) -> Exchanged {
    let headers = headers.iter().map(|(name, value)| {
        (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
    });
    let status = StatusCode::from_u16(status).unwrap();
    Exchanged { status, headers: headers.collect(), body: body.as_bytes().to_vec() }
}

fn now() -> Timestamp {
    Timestamp::parse_rfc3339("2026-11-19T18:55:38Z").unwrap()
}

const JS: (&str, &str) = ("x-inngest-sdk", "inngest-js:v4.24.0");
const PY: (&str, &str) = ("x-inngest-sdk", "inngest-py:v0.5.19");
const FINAL: (&str, &str) = ("x-inngest-no-retry", "true");
const AGAIN: (&str, &str) = ("x-inngest-no-retry", "false");

#[test]
fn a_value_is_the_end_of_the_function() {
    for (headers, body, expected) in [
        (&[JS][..], r#"{"a":1}"#, r#"{"a":1}"#),
        (&[PY], r#"{"a": 1}"#, r#"{"a": 1}"#),
        (&[JS], "null", "null"),
        (&[JS], "", "null"),
    ] {
        let read = read(&Keys::default(), &exchanged(200, headers, body), now());
        let Ok(Answer::Returned(value)) = read.answer else { panic!("{read:?}") };
        assert_eq!(value.as_str(), expected);
    }
}

#[test]
fn the_version_of_the_protocol_is_read() {
    let of = |version| {
        read(
            &Keys::default(),
            &exchanged(200, &[JS, ("x-inngest-req-version", version)], ""),
            now(),
        )
    };
    assert_eq!((of("2").version, of("x").version), (Some(2), None));
}

/// How a failure continues: the error's code and message, whether it is final, and the delay.
#[test]
fn a_failure_says_whether_it_is_repeated() {
    let js = r#"{"name":"Error","message":"outside","stack":"Error: outside\n at","cause":"c","__serialized":true}"#;
    let py = r#"{"code": "unknown", "message": "outside", "name": "ValueError", "stack": "…"}"#;
    let go = r#"{"message":"outside"}"#;
    let gone = r#"{"error":"Could not find step \"a6\" to run","requestedStep":"a6"}"#;
    let stale = r#"{"name":"StaleDispatchError","message":"Stale dispatch: 409"}"#;
    let date = ("retry-after", "2026-11-19T18:56:38.964Z");
    let (seconds, zero) = (("retry-after", "30"), ("retry-after", "0"));
    let http = ("retry-after", "Thu, 19 Nov 2026 18:56:38 GMT");
    let (again, never) = (Some(None), None);
    let after = |ms| Some(Some(Duration::from_millis(ms)));
    for (status, headers, body, code, message, expected) in [
        (500, &[JS, AGAIN][..], js, "Error", "outside", again),
        (400, &[JS, FINAL], js, "Error", "outside", never),
        (500, &[PY, FINAL], py, "ValueError", "outside", never),
        (500, &[PY], py, "ValueError", "outside", again),
        (500, &[PY, FINAL], go, "Error", "outside", never),
        (500, &[JS, AGAIN, date], js, "Error", "outside", after(60_964)),
        (500, &[JS, seconds], js, "Error", "outside", after(30_000)),
        (500, &[JS, zero], js, "Error", "outside", after(1000)),
        (503, &[PY, http], py, "ValueError", "outside", after(60_000)),
        (500, &[JS, AGAIN], gone, "Error", "Could not find step \"a6\" to run", again),
        // The signature was wrong, or the app has another key.
        (401, &[PY], go, "BadAnswer", "must have the signing key of this server", again),
        // A checkpoint was refused because a newer call has taken over: this says nothing about
        // the run.
        (400, &[JS, FINAL], stale, "StaleDispatchError", "Stale dispatch: 409", again),
        (500, &[JS], "oops", "Error", "oops", again),
        (500, &[JS], r#""oops""#, "Error", "oops", again),
        (500, &[JS], "", "Error", "", again),
    ] {
        let exchanged = exchanged(status, headers, body);
        let error = read(&Keys::default(), &exchanged, now()).answer.expect_err(body);
        assert_eq!(error.code(), code, "{status} {body}");
        assert!(error.message().contains(message), "{status} {body}: {error}");
        let wanted = match expected {
            None => error.clone().fatal(),
            Some(Some(delay)) => error.clone().retry_after(delay),
            Some(None) => error.clone(),
        };
        assert_eq!((error.is_fatal(), &error), (expected.is_none(), &wanted), "{status} {body}");
    }
}

#[test]
fn an_answer_of_another_program_is_no_success() {
    for (status, headers, body, named) in [
        (200, &[][..], "null", "no header `x-inngest-sdk`"),
        (200, &[("content-type", "text/html")], "<h1>hi", "<h1>hi"),
        (404, &[FINAL], "not here", "404 Not Found"),
        (502, &[], "", "502 Bad Gateway"),
        (307, &[("location", "http://other/?secret")], "", "register the app at its final URL"),
        (206, &[JS], "not json", "not a list"),
        (200, &[JS], "not json", "cannot be kept"),
    ] {
        let error = read(&Keys::default(), &exchanged(status, headers, body), now())
            .answer
            .expect_err(body);
        assert!(!error.is_fatal() && error.code() == "BadAnswer", "{error:?}");
        assert!(error.message().contains(named), "{error}");
        assert!(!error.message().contains("secret"), "{error}");
    }
}

#[test]
fn a_streamed_answer_is_the_one_inside() {
    let ops = format!(r#"[{{\"id\":\"{ONE}\",\"op\":\"StepRun\",\"data\":1}}]"#);
    let text = format!(
        r#"   {{"status":206,"headers":{{"x-inngest-sdk":"js","x-inngest-req-version":"1"}},"body":"{ops}"}}"#
    );
    let read_of =
        |text: &str| read(&Keys::default(), &exchanged(201, &[("content-type", "x")], text), now());
    let read = read_of(&text);
    assert_eq!(read.version, Some(1));
    let Ok(Answer::Operations(operations)) = read.answer else { panic!("{read:?}") };
    assert_eq!(operations[0].step, ONE);
    let value = r#"{"status":200,"headers":{"x-inngest-sdk":"js"},"body":{"a":1}}"#;
    assert!(
        matches!(read_of(value).answer, Ok(Answer::Returned(it)) if it.as_str() == r#"{"a":1}"#)
    );
    let failed =
        r#"{"status":400,"headers":{"x-inngest-sdk":"js","x-inngest-no-retry":"true"},"body":"x"}"#;
    assert!(read_of(failed).answer.expect_err("failed").is_fatal());
    for cut in ["   ", r#"  {"status":206,"#, r#"{"status":201,"body":""}"#] {
        assert_eq!(read_of(cut).answer.expect_err(cut).code(), "BadAnswer");
    }
}

#[test]
fn only_the_step_of_the_url_is_set() {
    for (given, expected) in [
        ("http://h/api?fnId=a-f&stepId=step", "http://h/api?fnId=a-f&stepId=X"),
        ("http://h/api?stepId=step&fnId=a-f&k=%20v", "http://h/api?fnId=a-f&k=%20v&stepId=X"),
        ("http://h/api", "http://h/api?stepId=X"),
    ] {
        let mut url = given.parse().unwrap();
        set_step(&mut url, "X");
        assert_eq!(url.as_str(), expected);
    }
}

#[test]
fn a_wrongly_signed_answer_is_no_success() {
    let keys = |key| Keys::read(key, "", "").unwrap();
    let (own, other) = (keys("signkey-prod-12345678"), keys("signkey-prod-87654321"));
    for (signer, body, good) in [(&own, "1", true), (&other, "1", false), (&own, "2", false)] {
        let signature = signer.sign(b"1", seconds(now())).unwrap().unwrap();
        let exchanged = exchanged(200, &[JS, (SIGNATURE, &signature)], body);
        let read = read(&own, &exchanged, now()).answer;
        assert_eq!(read.is_ok(), good, "{read:?}");
        if let Err(error) = read {
            assert!(!error.is_fatal() && error.message().contains("wrongly signed"), "{error}");
        }
    }
    assert!(read(&own, &exchanged(200, &[JS], "1"), now()).answer.is_ok(), "JS 3 signs nothing");
}
