//! Sleeps, waits, calls of functions and requests (INNGEST 10, S32 to S39).

use serde_json::{Value, json};
use tidegate_core::time::Timestamp;

use super::{
    app::{App, Flow, Sdk, Step, Stop},
    groups::has_step,
    steps::now_ms,
};
use crate::{server::Server, target::Target};

fn sleep(step: &Step, name: &str, spelled: Value) -> Flow {
    let mut op = json!({ "op": "Sleep", "opts": {} });
    for (field, value) in spelled.as_object().unwrap() {
        op[field] = value.clone();
    }
    step.ask(name, op)
}

/// S32: a sleep for a duration and until a moment, in all spellings. A sleep in the past is over.
#[tokio::test]
async fn a_sleep_is_read_in_every_spelling() {
    let app = App::start(Sdk::Two).await;
    let at = Timestamp::from_ms(now_ms() + 300).rfc3339();
    let spelled = [
        json!({ "name": "100ms" }),
        json!({ "name": at }),
        json!({ "name": "nap", "opts": { "duration": "0m0.1s" } }),
        json!({ "name": "" }),
        json!({ "name": "2020-01-01T00:00:00Z" }),
    ];
    let all = spelled.clone();
    app.function("sleeps", move |step| {
        let mut slept = Vec::new();
        for (n, spelled) in all.iter().enumerate() {
            slept.push(sleep(step, &format!("nap {n}"), spelled.clone())?);
        }
        Ok(json!(slept))
    });
    let server = Server::start(&app.config(""));
    let run = server.start_run("sleeps", json!({})).await;
    assert_eq!(
        server.until(&run, "completed").await["output"],
        json!([null, null, null, null, null])
    );
    assert_eq!(app.calls().len(), spelled.len() + 1);
    assert!(app.calls().iter().all(|call| call.attempt() == 0));
}

/// S33, S35: an event that matches ends the wait, with the whole event; another one and one from
/// before the wait do not.
#[tokio::test]
async fn a_wait_ends_with_the_event_that_matches() {
    let app = App::start(Sdk::Two).await;
    app.function("waits", |step| {
        let opts = json!({ "timeout": "1h", "if": "event.data.id == async.data.id" });
        step.ask("w", json!({ "op": "WaitForEvent", "name": "paid", "opts": opts }))
    });
    let server = Server::start(&app.config(""));
    let paid = |id: &str, n: u32| json!({ "name": "paid", "data": { "id": id, "n": n } });
    server.post("/events", paid("a", 1)).await;
    let run = server.start_run("waits", json!({ "id": "a" })).await;
    server.until(&run, "waiting").await;
    server.post("/events", paid("b", 2)).await;
    server.post("/events", paid("a", 3)).await;
    let event = &server.until(&run, "completed").await["output"];
    assert_eq!((&event["name"], &event["data"]["n"]), (&json!("paid"), &json!(3)), "{event}");
    assert!(event["id"].is_string() && event["ts"].is_i64(), "{event}");
}

/// S34: a wait whose time is over gives null.
#[tokio::test]
async fn a_wait_that_times_out_gives_null() {
    let app = App::start(Sdk::Two).await;
    app.function("waits", |step| {
        let opts = json!({ "timeout": "50ms" });
        let event = step.ask("w", json!({ "op": "WaitForEvent", "name": "paid", "opts": opts }))?;
        let opts = json!({ "signal": "s", "timeout": "50ms" });
        let signal = step.ask("s", json!({ "op": "WaitForSignal", "name": "s", "opts": opts }))?;
        Ok(json!({ "event": event, "signal": signal }))
    });
    let server = Server::start(&app.config(""));
    let run = server.start_run("waits", json!({})).await;
    let output = &server.until(&run, "completed").await["output"];
    assert_eq!(*output, json!({ "event": null, "signal": null }));
}

/// Function that calls another one and returns its value or its error.
fn calls(step: &Step, function: &str, timeout: Value) -> Flow {
    let opts =
        json!({ "function_id": function, "payload": { "data": { "z": 1 } }, "timeout": timeout });
    match step.ask("call", json!({ "op": "InvokeFunction", "opts": opts })) {
        Err(Stop::Throws(error)) => Ok(json!({ "error": error })),
        other => other,
    }
}

/// S36: the value, the error, the time-out and the unknown target of a called function arrive.
#[tokio::test]
async fn a_called_function_gives_its_value_or_error() {
    let app = App::start(Sdk::Two).await;
    app.function("good", |step| Ok(json!({ "got": step.call.body["event"]["data"] })));
    app.function("bad", |_| Err(Stop::Throws(super::app::error("RangeError", "too far"))));
    app.function("slow", |step| sleep(step, "long", json!({ "name": "1h" })));
    app.function("calls-good", |step| calls(step, "app-good", Value::Null));
    app.function("calls-bad", |step| calls(step, "app-bad", Value::Null));
    app.function("calls-slow", |step| calls(step, "app-slow", json!("100ms")));
    app.function("calls-none", |step| calls(step, "app-none", Value::Null));
    let server = Server::start(&app.config(""));
    let output = async |function: &str| {
        let run = server.start_run(function, json!({})).await;
        server.until(&run, "completed").await["output"].clone()
    };
    assert_eq!(output("calls-good").await, json!({ "got": { "z": 1 } }));
    assert_eq!(output("calls-bad").await["error"], super::app::error("RangeError", "too far"));
    let late = output("calls-slow").await;
    assert_eq!(late["error"]["name"], "TimedOut", "{late}");
    let unknown = output("calls-none").await;
    assert_eq!(unknown["error"]["name"], "UnknownWorkflow", "{unknown}");
    assert!(unknown["error"]["message"].as_str().unwrap().contains("`app-none`"), "{unknown}");
}

/// S37: a called function whose control refuses the run fails its caller at once.
#[tokio::test]
async fn a_function_that_is_not_started_fails_its_caller_at_once() {
    let app = App::start(Sdk::Two).await;
    app.function("single", |step| sleep(step, "long", json!({ "name": "1h" })));
    app.function("caller", |step| calls(step, "app-single", Value::Null));
    let single = "name = \"single\"\nsingleton = { mode = \"skip\" }\n";
    let server = Server::start(&app.config("").replace("name = \"single\"\n", single));
    let first = server.start_run("single", json!({})).await;
    server.until(&first, "waiting").await;
    let caller = server.start_run("caller", json!({})).await;
    let output = &server.until(&caller, "completed").await["output"];
    assert_eq!(output["error"]["name"], "Refused", "{output}");
}

/// S38: a step that sends an event runs once, however often the function is called.
#[tokio::test]
async fn a_sent_event_is_sent_once() {
    let app = App::start(Sdk::Two).await;
    app.function("sends", |step| {
        let sent = step.run("send", || Ok(json!({ "ids": ["01"] })))?;
        sleep(step, "nap", json!({ "name": "10ms" }))?;
        step.run("after", || Ok(json!(1)))?;
        Ok(sent)
    });
    let server = Server::start(&app.config(""));
    let run = server.start_run("sends", json!({})).await;
    assert_eq!(server.until(&run, "completed").await["output"], json!({ "ids": ["01"] }));
    assert_eq!(app.ran(), ["send", "after"]);
}

/// A request for the app is made by the server: the answer is the step's value whatever its status,
/// and the request is not repeated.
#[tokio::test]
async fn a_request_for_the_app_is_made_once() {
    let target = Target::start(|call, _| {
        (418, vec![("x-own", "1")], format!("{} {}", call.header("a"), call.body))
    });
    let target = target.await;
    let url = target.url.clone();
    let app = App::start(Sdk::Two).await;
    app.function("fetches", move |step| {
        let opts = json!({ "url": format!("{url}/x"), "method": "POST", "headers": { "a": "b", "host": "evil" }, "body": "hi" });
        step.ask("fetch", json!({ "op": "Gateway", "opts": opts }))
    });
    app.function("private", |step| {
        let opts = json!({ "url": "http://10.0.0.1/", "method": "GET" });
        match step.ask("fetch", json!({ "op": "Gateway", "opts": opts })) {
            Err(Stop::Throws(error)) => Ok(error["name"].clone()),
            other => other,
        }
    });
    let server = Server::start(&app.config(""));
    let run = server.start_run("fetches", json!({})).await;
    let output = &server.until(&run, "completed").await["output"];
    assert_eq!((&output["status_code"], &output["body"]), (&json!(418), &json!("b hi")));
    assert_eq!(output["headers"]["x-own"], "1");
    let [call] = &target.calls()[..] else { panic!("it is called once") };
    assert_ne!(call.header("host"), "evil");
    let run = server.start_run("private", json!({})).await;
    assert_eq!(server.until(&run, "completed").await["output"], "PrivateAddress");
}

/// A request that fails is made again by the server, also beside a call that lasts; the app is not
/// asked. A refusal that cannot pass is the step's error at once.
#[tokio::test]
async fn a_failed_request_is_made_again() {
    let target = Target::start(|call, before| match (call.path.as_str(), before) {
        ("/busy", 0) => (503, vec![], "later".to_owned()),
        ("/busy", _) => (200, vec![], r#"{"text":"hi"}"#.to_owned()),
        _ => (400, vec![], "no such model".to_owned()),
    });
    let target = target.await;
    let ask = |path: &str| {
        let opts = json!({ "type": "step.ai.infer", "url": format!("{}/{path}", target.url),
                           "headers": {}, "body": {} });
        json!({ "op": "AIGateway", "opts": opts })
    };
    let (busy, bad) = (ask("busy"), ask("bad"));
    let app = App::start(Sdk::Two).await;
    app.function("busy", move |step| {
        let asked = step.ask("model", busy.clone());
        step.all([step.run("long", || Ok(json!(1))), asked]).map(Value::from)
    });
    app.function("bad", move |step| match step.ask("model", bad.clone()) {
        Err(Stop::Throws(error)) => Ok(error),
        other => other,
    });
    let server = Server::start(&app.config(""));
    app.shut(&["long"]);
    let run = server.start_run("busy", json!({})).await;
    while !has_step(&server, &run, "model").await {}
    app.shut(&[]);
    assert_eq!(server.until(&run, "completed").await["output"], json!([1, { "text": "hi" }]));
    assert_eq!((target.calls().len(), app.calls().len()), (2, 3));
    let run = server.start_run("bad", json!({})).await;
    let error = &server.until(&run, "completed").await["output"];
    assert_eq!(error["name"], "ModelRefused", "{error}");
    assert!(error["message"].as_str().unwrap().contains("no such model"), "{error}");
    assert_eq!(target.calls().len(), 3);
}

/// The end of a function is an event for a run that waits for it, although it triggers nothing.
#[tokio::test]
async fn a_run_waits_for_the_end_of_a_function() {
    let app = App::start(Sdk::Two).await;
    app.function("job", |_| Ok(json!("done")));
    app.function("other", |_| Ok(json!("done")));
    app.function("watch", |step| {
        let opts = json!({ "timeout": "1h", "if": "async.data.function_id == 'app-job'" });
        let name = "inngest/function.finished";
        step.ask("end", json!({ "op": "WaitForEvent", "name": name, "opts": opts }))
    });
    let mut config = app.config("");
    for name in ["job", "other"] {
        let end_events = format!(
            "name = \"{name}\"\nendEvents = {{ completed = [\"inngest/function.finished\"], \
             data = {{ function_id = \"app-{name}\" }} }}\n"
        );
        config = config.replace(&format!("name = \"{name}\"\n"), &end_events);
    }
    let server = Server::start(&config);
    let run = server.start_run("watch", json!({})).await;
    server.until(&run, "waiting").await;
    let other = server.start_run("other", json!({})).await;
    server.until(&other, "completed").await;
    let job = server.start_run("job", json!({})).await;
    let event = &server.until(&run, "completed").await["output"];
    assert_eq!(event["name"], "inngest/function.finished", "{event}");
    assert_eq!((&event["data"]["run_id"], &event["data"]["result"]), (&json!(job), &json!("done")));
    let last = server.start_run("job", json!({})).await;
    server.until(&last, "completed").await;
    let (_, posted) = server.get("/events?name=inngest/function.finished").await;
    let posted = posted["events"].as_array().unwrap();
    assert_eq!(posted.len(), 1, "only an end for which a run waits is an event: {posted:?}");
}

/// A run that is cancelled while its app is called ends at once, and its answer changes nothing.
#[tokio::test]
async fn a_cancelled_run_is_not_called_again() {
    let app = App::start(Sdk::Two).await;
    app.function("two", |step| {
        step.all([step.run("a", || Ok(json!(1))), step.run("b", || Ok(json!(2)))]).map(Value::from)
    });
    let server = Server::start(&app.config(""));
    app.shut(&["a"]);
    let run = server.start_run("two", json!({})).await;
    while !has_step(&server, &run, "b").await {}
    server.post(&format!("/runs/{run}/cancel"), "").await;
    server.until(&run, "cancelled").await;
    let calls = app.calls().len();
    app.shut(&[]);
    let next = server.start_run("two", json!({})).await;
    server.until(&next, "completed").await;
    assert_eq!(app.calls().len() - calls, 4, "only the second run is called");
}

/// S39: a signal resumes the step that waits for its name; without one it is 404.
#[tokio::test]
async fn a_signal_resumes_the_one_who_waits() {
    let app = App::start(Sdk::Two).await;
    app.function("waits", |step| {
        let opts = json!({ "signal": "approve", "timeout": "1h" });
        step.ask("s", json!({ "op": "WaitForSignal", "name": "approve", "opts": opts }))
    });
    let server = Server::start(&app.config(""));
    let send = async |data: Value| {
        let body = json!({ "signal": "approve", "data": data }).to_string();
        server.raw("POST", "/v1/signals", &[("authorization", "Bearer ")], &body).await.unwrap()
    };
    assert_eq!(send(json!(1)).await.status, 404);
    let run = server.start_run("waits", json!({})).await;
    server.until(&run, "waiting").await;
    let answer = send(json!(null)).await;
    assert_eq!((answer.status, &answer.json()["data"]["run_id"]), (200, &json!(run)));
    let output = &server.until(&run, "completed").await["output"];
    assert_eq!(*output, json!({ "signal": "approve", "data": null }));
}

/// A step that replaces another one takes over its signal; the other one's wait is over.
#[tokio::test]
async fn a_signal_has_one_waiter() {
    let app = App::start(Sdk::Two).await;
    for name in ["waits", "replaces", "fails"] {
        app.function(name, move |step| {
            let conflict = if name == "replaces" { "replace" } else { "fail" };
            let opts = json!({ "signal": "approve", "timeout": "1h", "conflict": conflict });
            step.ask("s", json!({ "op": "WaitForSignal", "name": "approve", "opts": opts }))
        });
    }
    let server = Server::start(&app.config(""));
    let first = server.start_run("waits", json!({})).await;
    server.until(&first, "waiting").await;
    let refused = server.start_run("fails", json!({})).await;
    server.until(&refused, "failed").await;
    let second = server.start_run("replaces", json!({})).await;
    assert_eq!(server.until(&first, "completed").await["output"], Value::Null);
    server.until(&second, "waiting").await;
}
