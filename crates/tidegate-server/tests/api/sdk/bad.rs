//! Apps that answer badly: a run fails or is retried with an error that names the cause, and the
//! server stays healthy (INNGEST 10, S26, S29, S30).

use serde_json::json;

use super::app::{App, Sdk, Stop, id_of};
use crate::server::Server;

fn sdk() -> (&'static str, String) {
    ("x-inngest-sdk", "inngest-js:v4.24.0".to_owned())
}

fn answers(status: u16, headers: &[(&'static str, &str)], body: &str) -> Stop {
    let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned()));
    let body = body.to_owned();
    Stop::Answers(status, headers.chain([sdk()]).collect(), body)
}

/// Each bad answer, the number of calls that it leads to, and the error of the run.
#[tokio::test]
async fn a_bad_answer_fails_the_run_by_name() {
    let app = App::start(Sdk::Two).await;
    let own = |op: &str| format!(r#"[{{"id":"{}",{op}}}]"#, id_of("x"));
    let huge = format!("\"{}\"", "x".repeat(9 * 1024 * 1024));
    let large = format!("\"{}\"", "x".repeat(5 * 1024 * 1024));
    let no_sdk = |status| Stop::Answers(status, Vec::new(), "<h1>hi".to_owned());
    let cases: Vec<(&str, Stop, usize, &str, &str)> = vec![
        ("opcode", answers(206, &[], &own(r#""op":"DeferAdd""#)), 1, "UnknownOpcode", "`DeferAdd`"),
        ("garbage", answers(206, &[], "]["), 3, "BadAnswer", "not a list of operations"),
        ("no-json", answers(200, &[], "hello"), 3, "BadAnswer", "cannot be kept"),
        (
            "sleep",
            answers(206, &[], &own(r#""op":"Sleep","name":"soon""#)),
            3,
            "BadAnswer",
            "`soon`",
        ),
        ("no-sdk", no_sdk(200), 3, "BadAnswer", "has no header `x-inngest-sdk`"),
        ("gone", no_sdk(404), 3, "BadAnswer", "404 Not Found"),
        (
            "moved",
            answers(307, &[("location", "http://other/")], ""),
            3,
            "BadAnswer",
            "no redirects",
        ),
        ("huge", answers(200, &[], &huge), 1, "AnswerTooLarge", "bytes"),
        ("large", answers(200, &[], &large), 3, "BadAnswer", "at most 4194304 bytes"),
        ("nothing", answers(206, &[], "[]"), 3, "NoProgress", "neither returned nor ran a step"),
        (
            "again",
            answers(206, &[], &own(r#""op":"DiscoveryRequest""#)),
            3,
            "NoProgress",
            "again and again",
        ),
        ("cut", answers(201, &[], "   "), 3, "BadAnswer", "incomplete"),
    ];
    for (name, answer, ..) in &cases {
        let Stop::Answers(status, headers, body) = answer else { panic!("{name}") };
        let (status, headers, body) = (*status, headers.clone(), body.clone());
        app.function(name, move |_| Err(Stop::Answers(status, headers.clone(), body.clone())));
    }
    app.function("good", |_| Ok(json!(1)));
    let server = Server::start(&app.config(""));
    for (name, _, calls, code, message) in cases {
        let before = app.calls().len();
        let run = server.start_run(name, json!({})).await;
        let error = &server.until(&run, "failed").await["error"];
        assert_eq!(error["code"], code, "{name}: {error}");
        assert!(error["message"].as_str().unwrap().contains(message), "{name}: {error}");
        assert_eq!(app.calls().len() - before, calls, "{name}: {error}");
    }
    let run = server.start_run("good", json!({})).await;
    server.until(&run, "completed").await;
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

/// An app that never answers, or only half, or is not there, is called again until its attempts are
/// over. Other runs go on meanwhile.
#[tokio::test]
async fn an_app_that_does_not_answer_holds_up_nobody() {
    let app = App::start(Sdk::Two).await;
    app.function("good", |_| Ok(json!(1)));
    app.function("silent", |_| Ok(json!(1)));
    app.function("half", |_| Ok(json!(1)));
    app.function("absent", |_| Ok(json!(1)));
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let half = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let absent = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let own = app.url.split('/').nth(2).unwrap().to_owned();
    let moved = |config: String, name: &str, to: &str| {
        let from = format!("{own}/api/inngest?fnId=app-{name}&");
        config.replace(&from, &format!("{to}/api/inngest?fnId=app-{name}&"))
    };
    let config =
        app.config("callTimeoutMs = 200").replace("remote =", "callTimeoutMs = 200\nremote =");
    let config = moved(config, "silent", &silent.local_addr().unwrap().to_string());
    let config = moved(config, "half", &half.local_addr().unwrap().to_string());
    let config = moved(config, "absent", &absent.to_string());
    tokio::spawn(async move {
        use tokio::io::AsyncWriteExt as _;
        while let Ok((mut connection, _)) = half.accept().await {
            let head =
                "HTTP/1.1 206 Partial Content\r\nx-inngest-sdk: js\r\ncontent-length: 100\r\n\r\n[";
            let _ = connection.write_all(head.as_bytes()).await;
        }
    });
    let server = Server::start(&config);
    let mut runs = Vec::new();
    for name in ["silent", "half", "absent"] {
        runs.push((name, server.start_run(name, json!({})).await));
    }
    let run = server.start_run("good", json!({})).await;
    server.until(&run, "completed").await;
    for (name, run) in runs {
        let error = &server.until(&run, "failed").await["error"];
        let code = if name == "silent" { "CallTimedOut" } else { "CallFailed" };
        assert_eq!(error["code"], code, "{name}: {error}");
        assert!(!error.to_string().contains("fnId"), "the URL may be secret: {error}");
    }
}

/// A call of a step that fails as a whole is an error of the run, which the function cannot catch.
#[tokio::test]
async fn a_failed_call_of_a_step_fails_the_run() {
    let app = App::start(Sdk::Python).await;
    app.function("fails", |step| {
        if step.call.step != "step" {
            return Err(answers(500, &[], r#"{"name":"Broken","message":"no memory"}"#));
        }
        match step.all([step.run("a", || Ok(json!(1))), step.run("b", || Ok(json!(2)))]) {
            Err(Stop::Throws(error)) => Ok(json!({ "caught": error })),
            other => other.map(serde_json::Value::from),
        }
    });
    let server = Server::start(&app.config(""));
    let run = server.start_run("fails", json!({})).await;
    assert_eq!(server.until(&run, "failed").await["error"]["code"], "Broken");
}

/// An app is called again although one answer was no success: S29.
#[tokio::test]
async fn an_answer_of_another_program_is_tried_again() {
    let app = App::start(Sdk::Two).await;
    app.function("flaky", |step| match step.call.attempt() {
        0 => Err(Stop::Answers(200, Vec::new(), "null".to_owned())),
        1 => Err(Stop::Answers(502, Vec::new(), "bad gateway".to_owned())),
        attempt => Ok(json!(attempt)),
    });
    let server = Server::start(&app.config(""));
    let run = server.start_run("flaky", json!({})).await;
    assert_eq!(server.until(&run, "completed").await["output"], 2);
}

/// A streamed answer keeps the connection open with blanks; its last part is the answer.
#[tokio::test]
async fn a_streamed_answer_counts_as_the_one_inside() {
    let app = App::start(Sdk::Two).await;
    app.function("streams", |step| {
        let done = step.call.body["steps"].as_object().unwrap().contains_key(&id_of("x"));
        let (status, body) = if done {
            (200, json!("end").to_string())
        } else {
            (206, format!(r#"[{{"id":"{}","op":"StepRun","data":1}}]"#, id_of("x")))
        };
        let headers = json!({ "x-inngest-sdk": "js", "x-inngest-req-version": "1" });
        let inner = json!({ "status": status, "headers": headers, "body": body });
        Err(Stop::Answers(201, Vec::new(), format!("      {inner}")))
    });
    let server = Server::start(&app.config(""));
    let run = server.start_run("streams", json!({})).await;
    assert_eq!(server.until(&run, "completed").await["output"], "end");
    assert_eq!(app.calls().len(), 2);
}

/// An app that has moved is called at its new URL, also for runs of the version before.
#[tokio::test]
async fn an_app_that_moves_is_followed() {
    let (old, new) = (App::start(Sdk::Two).await, App::start(Sdk::Two).await);
    let server = Server::start("");
    let register = async |app: &App| {
        let runtime = json!({ "type": "http", "url": format!("{}?fnId=app-moves", app.url) });
        let step = json!({ "id": "step", "name": "step", "runtime": runtime });
        let function = json!({ "id": "app-moves", "triggers": [{ "event": "moves" }],
                               "steps": { "step": step } });
        let body = json!({ "appName": "app", "sdk": "js:v4", "functions": [function] });
        let answer = server.raw("POST", "/fn/register", &[], &body.to_string()).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.json());
    };
    for (app, name) in [(&old, "old"), (&new, "new")] {
        app.function("moves", move |step| {
            let opts = json!({ "timeout": "1h" });
            step.ask("w", json!({ "op": "WaitForEvent", "name": "go", "opts": opts }))?;
            step.run("where", move || Ok(json!(name)))
        });
    }
    register(&old).await;
    let run = server.start_run("moves", json!({})).await;
    server.until(&run, "waiting").await;
    register(&new).await;
    server.post("/events", json!({ "name": "go" })).await;
    assert_eq!(server.until(&run, "completed").await["output"], "new");
    assert_eq!(old.calls().len(), 1);
}

/// The code of a function may change while a run of it waits: steps that are new run, those that are
/// gone are not asked for.
#[tokio::test]
async fn changed_code_continues_with_what_it_has() {
    let app = App::start(Sdk::Two).await;
    app.function("changes", |step| {
        step.run("old", || Ok(json!(1)))?;
        step.run("bad", || Err(super::app::error("Error", "bug")))
    });
    let server = Server::start(&app.config("").replace("backoffMs = 20", "backoffMs = 500"));
    let run = server.start_run("changes", json!({})).await;
    app.called(2).await;
    app.function("changes", |step| {
        step.run("old", || Ok(json!(2)))?;
        step.run("fixed", || Ok(json!("fixed")))
    });
    assert_eq!(server.until(&run, "completed").await["output"], "fixed");
    assert_eq!(app.ran(), ["old", "bad", "fixed"]);
}
