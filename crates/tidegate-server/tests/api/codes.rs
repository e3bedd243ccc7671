//! Error codes: a request that causes each of them. Codes that need more than one request are
//! tested with their feature; `tests/contract/errors.rs` compares all codes with the reference.

use serde_json::{Value, json};

use crate::{server::Server, target::Target};

/// A request (method, path, headers, body), and the status and code of its answer.
type Row<'a> = (&'a str, String, &'a [(&'a str, &'a str)], String, u16, &'a str);

async fn check(server: &Server, rows: Vec<Row<'_>>) {
    for (method, path, headers, body, status, code) in rows {
        let answer = server.raw(method, &path, headers, &body).await.unwrap();
        let text = &answer.text;
        assert_eq!(answer.status, status, "{method} {path}: {text}");
        assert_eq!(answer.json()["error"], code, "{method} {path}: {text}");
    }
}

fn row<'a>(method: &'a str, path: &str, body: Value, status: u16, code: &'a str) -> Row<'a> {
    (method, path.to_owned(), &[], body.to_string(), status, code)
}

#[tokio::test]
async fn requests_that_cannot_be_read_get_their_codes() {
    let server = Server::start("");
    let large = json!({ "name": "a", "data": "a".repeat(5_000_000) });
    let deep = "[".repeat(200) + &"]".repeat(200);
    let post =
        |body: String, status, code| ("POST", "/events".to_owned(), &[][..], body, status, code);
    let text = [("content-type", "text/plain")];
    let long = "k".repeat(256);
    let long = [("idempotency-key", long.as_str())];
    check(
        &server,
        vec![
            post("{".to_owned(), 400, "bad_json"),
            post(r#"{"nam": "a"}"#.to_owned(), 422, "bad_body"),
            post("[]".to_owned(), 422, "too_many_events"),
            post(r#"{"name": "a", "ts": "noon"}"#.to_owned(), 422, "bad_time"),
            post(
                r#"{"name": "a", "deliverAt": "9999-01-01T00:00:00Z"}"#.to_owned(),
                422,
                "too_far_ahead",
            ),
            post(large.to_string(), 413, "request_too_large"),
            post(
                json!({ "name": "a", "data": "a".repeat(600_000) }).to_string(),
                422,
                "payload_too_large",
            ),
            post(format!(r#"{{"name": "a", "data": {deep}}}"#), 422, "payload_too_deep"),
            ("POST", "/events".to_owned(), &text, "{}".to_owned(), 415, "not_json"),
            ("POST", "/events".to_owned(), &long, "{}".to_owned(), 422, "bad_idempotency_key"),
            row("DELETE", "/events", json!({}), 405, "no_method"),
            row("GET", "/nothing", json!({}), 404, "no_route"),
            row("GET", "/runs?limit=0", json!({}), 422, "bad_query"),
            row("GET", "/workflows/%00", json!({}), 422, "bad_path_part"),
            row("GET", "/reactions?stream=a.*", json!({}), 422, "bad_stream_filter"),
            row("POST", "/runs/bulk", json!({ "action": "pause" }), 422, "bulk_needs_filter"),
            row("POST", "/keys", json!({ "name": "" }), 422, "bad_name"),
        ],
    )
    .await;
}

#[tokio::test]
async fn requests_for_things_that_are_absent_get_their_codes() {
    let server = Server::start("");
    let get = |path: &str, code| row("GET", path, json!({}), 404, code);
    let post = |path: &str, body: Value, code| row("POST", path, body, 404, code);
    check(
        &server,
        vec![
            get("/runs/x", "no_run"),
            get("/events/x", "no_event"),
            get("/streams/x/events", "no_stream"),
            get("/runs/bulk/x", "no_bulk"),
            get("/workflows/x", "no_workflow"),
            get("/reactions?reaction=x", "no_reaction"),
            post("/schedules/x/pause", json!({}), "no_schedule"),
            post("/deferred/x/cancel", json!({}), "no_event"),
            post("/webhooks/x/y", json!({}), "no_webhook"),
            post("/flows/x/sessions/y/messages", json!({}), "no_chat"),
            row("DELETE", "/keys/x", json!({}), 404, "no_key"),
        ],
    )
    .await;
}

/// Requests that conflict with the state of a run, a version, a stream or a session.
#[tokio::test]
async fn requests_that_come_too_late_get_their_codes() {
    let target = Target::kind().await;
    let config = format!(
        "[[workflow]]\nname = \"w\"\nurl = \"{0}\"\ntriggers = [{{ event = \"w\" }}]\n\
         [[workflow]]\nname = \"v\"\nurl = \"{0}\"\nversion = 1\n",
        target.url
    );
    let server = Server::start(&config);
    let run = server.start_run("w", json!({})).await;
    server.until(&run, "completed").await;
    server.post("/streams/s/events", json!({ "events": [{ "name": "a" }] })).await;
    server.patch("/sessions/f/s", None, json!({ "op": "set", "path": "n", "value": 1 })).await;
    let at = |operation: &str| format!("/runs/{run}/{operation}");
    let other = json!({ "url": "http://h", "version": 1, "timeoutMs": 7 });
    let commit = json!({ "events": [{ "name": "a" }], "expectedVersion": 5 });
    let append = json!({ "op": "append", "path": "n", "value": 1 });
    let huge = json!({ "op": "increment", "path": "n", "by": 1 }).to_string();
    let huge = huge.replace("\"by\":1", &format!("\"by\":{}", "9".repeat(2000)));
    check(
        &server,
        vec![
            row("POST", &at("cancel"), json!({}), 409, "run_ended"),
            row("POST", &at("retry"), json!({ "from": "nothing" }), 404, "no_step"),
            row("POST", "/workflows/w/release", json!({ "version": 9 }), 404, "no_version"),
            row("PUT", "/workflows/v", other, 409, "version_changed"),
            row("POST", "/streams/s/events", commit, 409, "conflict"),
            row("POST", "/streams/s/events", json!({ "events": [] }), 422, "commit_count"),
            row("PATCH", "/sessions/f/s", append, 422, "session_type_mismatch"),
            ("PATCH", "/sessions/f/s".to_owned(), &[], huge, 422, "session_number"),
            row(
                "PATCH",
                "/sessions/f/s",
                json!({ "op": "get", "expectedVersion": 9 }),
                409,
                "session_changed",
            ),
        ],
    )
    .await;
}

/// Every kind of mistake in a definition, with the code of its problem.
#[tokio::test]
async fn problems_of_definitions_have_their_codes() {
    let server = Server::start("");
    for (definition, code) in [
        (json!({ "throttle": { "limit": 1 } }), "missing_field"),
        (json!({ "throttle": { "limit": "1", "perMs": 1 } }), "wrong_type"),
        (json!({ "throttle": { "limit": 0, "perMs": 1 } }), "out_of_range"),
        (json!({ "throtle": {} }), "unknown_field"),
        (json!({ "singleton": { "mode": "skp" } }), "unknown_value"),
        (json!({ "concurrency": { "limit": 1, "key": "a..b" } }), "bad_path"),
        (json!({ "triggers": [{ "cron": "@daily", "onOverlap": "debounce" }] }), "misplaced"),
        (json!({ "schema": { "$ref": "#/$defs/a" } }), "wrong_type"),
        (json!({ "schema": { "minlength": 1 } }), "unknown_field"),
    ] {
        let mut definition = definition;
        definition["url"] = "http://h".into();
        let (status, answer) = server.put("/workflows/w", &definition).await;
        assert_eq!(
            (status.as_u16(), &answer["error"]),
            (422, &json!("bad_definition")),
            "{answer}"
        );
        assert_eq!(answer["problems"][0]["code"], code, "{definition}: {answer}");
    }
}

/// Requests of callers without access.
#[tokio::test]
async fn requests_without_access_get_their_codes() {
    let server = Server::start("");
    check(
        &server,
        vec![
            (
                "GET",
                "/runs".to_owned(),
                &[("host", "example.com")],
                String::new(),
                421,
                "wrong_host",
            ),
            (
                "GET",
                "/runs".to_owned(),
                &[("tidegate-workspace", "x")],
                String::new(),
                404,
                "no_workspace",
            ),
            (
                "POST",
                "/events".to_owned(),
                &[("origin", "http://example.com")],
                "{}".to_owned(),
                403,
                "cross_site",
            ),
        ],
    )
    .await;
    let (_, reader) = server.post("/keys", json!({ "name": "r", "readOnly": true })).await;
    let reader = format!("Bearer {}", reader["key"].as_str().unwrap());
    let reader = [("authorization", reader.as_str())];
    check(
        &server,
        vec![
            row("GET", "/runs", json!({}), 401, "key_missing"),
            (
                "GET",
                "/runs".to_owned(),
                &[("authorization", "Bearer x")],
                String::new(),
                401,
                "bad_key",
            ),
            ("POST", "/events".to_owned(), &reader, "{}".to_owned(), 403, "read_only_key"),
        ],
    )
    .await;
}

/// Calls of services whose responses are unusable, with the code of the run's error.
#[tokio::test]
async fn answers_of_services_that_cannot_be_used_get_their_codes() {
    let json = ("content-type", "application/json");
    let answer = move |call: &crate::target::Call, _| {
        let large = call.body.contains("large");
        (
            200,
            vec![json],
            if large { format!("\"{}\"", "a".repeat(5_000_000)) } else { "{".to_owned() },
        )
    };
    let target = Target::start(answer).await;
    let config = format!("[[workflow]]\nname = \"w\"\nurl = \"{}\"", target.url);
    let server = Server::start(&config);
    for (data, code) in [("large", "AnswerTooLarge"), ("bad", "BadAnswer")] {
        let run = server.start_run("w", json!(data)).await;
        let run = server.until(&run, "failed").await;
        assert_eq!(run["error"]["code"], code, "{run}");
    }
}
