//! Parallel steps (INNGEST 10, S40 to S46).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::app::{App, Call, Flow, Sdk, Step, Stop, error, id_of};
use crate::server::Server;

fn sum(values: &[Value]) -> i64 {
    values.iter().map(|value| value.as_i64().unwrap()).sum()
}

/// Returns whether a step is recorded, after a short time.
pub(super) async fn has_step(server: &Server, run: &str, step: &str) -> bool {
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let (_, steps) = server.get(&format!("/runs/{run}/steps")).await;
    steps["steps"].as_array().unwrap().iter().any(|it| it["id"] == step)
}

fn three(step: &Step) -> Flow {
    let all = step.all([
        step.run("a", || Ok(json!(1))),
        step.run("b", || Ok(json!(2))),
        step.run("c", || Ok(json!(3))),
    ])?;
    let sum = sum(&all);
    step.run("sum", move || Ok(json!(sum)))
}

/// S40: three steps at once and a sum. Each step runs once, by a call of its own. Version 2 discovers
/// once before and once after them.
#[tokio::test]
async fn three_steps_at_once_are_called_by_themselves() {
    for (sdk, most) in [(Sdk::One, 9), (Sdk::Two, 6), (Sdk::Checkpoints, 5), (Sdk::Python, 6)] {
        let app = App::start(sdk).await;
        app.function("three", three);
        let server = Server::start(&app.config(""));
        server.url().clone_into(&mut app.server.lock().unwrap());
        let run = server.start_run("three", json!({})).await;
        assert_eq!(server.until(&run, "completed").await["output"], 6, "{sdk:?}");
        let mut ran = app.ran();
        assert_eq!(ran.pop().as_deref(), Some("sum"), "{sdk:?}");
        ran.sort();
        assert_eq!(ran, ["a", "b", "c"], "{sdk:?}");
        let calls = app.calls();
        assert!(calls.len() <= most, "{sdk:?}: {} calls", calls.len());
        let targeted: Vec<_> = calls.iter().filter(|call| call.step != "step").collect();
        assert_eq!(targeted.len(), 3, "{sdk:?}");
        let planning = |call: &&Call| call.body["ctx"]["disable_immediate_execution"] == true;
        assert!(targeted.iter().all(planning), "{sdk:?}: a group is under way");
        if sdk != Sdk::One {
            assert_eq!(calls.len(), most, "{sdk:?}");
        }
    }
}

/// A member that ends while the app answers to a discovery is reported once more, and not called
/// again.
#[tokio::test]
async fn a_member_that_has_ended_is_not_called_again() {
    let app = App::start(Sdk::One).await;
    app.function("two", |step| {
        step.all([step.run("a", || Ok(json!(1))), step.run("b", || Ok(json!(2)))]).map(Value::from)
    });
    let server = Server::start(&app.config(""));
    app.shut(&["a", "b"]);
    let run = server.start_run("two", json!({})).await;
    app.called(3).await;
    app.shut(&["step", "b"]);
    app.called(4).await;
    app.shut(&["step"]);
    while !has_step(&server, &run, "b").await {}
    app.shut(&[]);
    assert_eq!(server.until(&run, "completed").await["output"], json!([1, 2]));
    let called = app.calls().into_iter().filter(|call| call.step == id_of("b"));
    assert_eq!(called.count(), 1);
}

/// S41: two chains side by side finish, and each step runs once. In version 1 the chains do not wait
/// for each other.
#[tokio::test]
async fn two_chains_side_by_side_end() {
    for sdk in [Sdk::One, Sdk::Two, Sdk::Checkpoints, Sdk::Python] {
        let app = App::start(sdk).await;
        app.function("chains", |step| {
            let chain = |name: &'static str| {
                let first = step.run(&format!("{name}1"), || Ok(json!(1)))?;
                step.run(&format!("{name}2"), move || Ok(json!(first.as_i64().unwrap() + 1)))
            };
            step.all([chain("x"), chain("y")]).map(|all| json!(sum(&all)))
        });
        let server = Server::start(&app.config(""));
        server.url().clone_into(&mut app.server.lock().unwrap());
        if sdk == Sdk::One {
            app.shut(&["y1"]);
        }
        let run = server.start_run("chains", json!({})).await;
        if sdk == Sdk::One {
            while !app.ran().contains(&"x2".to_owned()) {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            app.shut(&[]);
        }
        assert_eq!(server.until(&run, "completed").await["output"], 4, "{sdk:?}");
        let mut ran = app.ran();
        ran.sort();
        assert_eq!(ran, ["x1", "x2", "y1", "y2"], "{sdk:?}");
    }
}

/// S42: a sleep, a wait and a step in one group. The sleep and the wait begin with the group, also
/// while a call of the step lasts.
#[tokio::test]
async fn waits_begin_beside_a_step_that_lasts() {
    for sdk in [Sdk::One, Sdk::Two, Sdk::Python] {
        let app = App::start(sdk).await;
        app.function("mixed", |step| {
            let sleep = step.ask("z", json!({ "op": "Sleep", "name": "200ms", "opts": {} }));
            let opts = json!({ "timeout": "1h" });
            let event = step.ask("w", json!({ "op": "WaitForEvent", "name": "go", "opts": opts }));
            let all = step.all([sleep, step.run("b", || Ok(json!(2))), event])?;
            Ok(json!({ "slept": all[0], "ran": all[1], "event": all[2]["data"] }))
        });
        let server = Server::start(&app.config(""));
        app.shut(&["b"]);
        let run = server.start_run("mixed", json!({})).await;
        app.called(2).await;
        // The wait is registered and ends while the step is called.
        while !has_step(&server, &run, "w").await {
            server.post("/events", json!({ "name": "go", "data": { "n": 7 } })).await;
        }
        app.shut(&[]);
        let output = &server.until(&run, "completed").await["output"];
        assert_eq!(*output, json!({ "slept": null, "ran": 2, "event": { "n": 7 } }), "{sdk:?}");
        assert_eq!(app.ran(), ["b"], "{sdk:?}");
    }
}

/// S43: a race ends with its fast member, while a call of the slow one lasts. What the slow one
/// answers later changes nothing.
#[tokio::test]
async fn a_race_ends_with_the_fast_one() {
    for sdk in [Sdk::One, Sdk::Two, Sdk::Python] {
        let app = App::start(sdk).await;
        app.function("race", |step| {
            let fast = step.run("fast", || Ok(json!("fast")));
            step.race([step.run("slow", || Ok(json!("slow"))), fast])
        });
        app.function("timeout", |step| {
            let sleep = step.ask("z", json!({ "op": "Sleep", "name": "50ms", "opts": {} }));
            step.race([sleep.map(|_| json!("late")), step.run("slow", || Ok(json!("slow")))])
        });
        let server = Server::start(&app.config(""));
        app.shut(&["slow"]);
        for (function, output) in [("race", "fast"), ("timeout", "late")] {
            let run = server.start_run(function, json!({})).await;
            assert_eq!(server.until(&run, "completed").await["output"], output, "{sdk:?}");
            assert!(!has_step(&server, &run, "slow").await, "{sdk:?} {function}");
        }
        app.shut(&[]);
    }
}

/// Returns the open waits of a run: the end of each, by its step.
async fn waits(server: &Server, run: &str) -> BTreeMap<String, String> {
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let (_, why) = server.get(&format!("/runs/{run}/why")).await;
    let waits = why["waits"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    waits.iter().map(|wait| (text(&wait["step"]), text(&wait["until"]))).collect()
}

/// S24, S42: the end of one member wakes the run. The others keep their deadlines: a step whose
/// backoff lasts is not called before its time, and a sleep that is reported again is not longer.
#[tokio::test]
async fn the_end_of_a_member_leaves_the_others_waiting() {
    for sdk in [Sdk::One, Sdk::Two, Sdk::Python] {
        let app = App::start(sdk).await;
        app.function("group", |step| {
            if step.call.step == id_of("later") {
                let headers =
                    vec![("x-inngest-sdk", "x".to_owned()), ("retry-after", "3600".into())];
                let thrown = error("RetryAfterError", "later").to_string();
                return Err(Stop::Answers(500, headers, thrown));
            }
            let opts = json!({ "timeout": "1h" });
            let event = step.ask("w", json!({ "op": "WaitForEvent", "name": "go", "opts": opts }));
            let sleep = step.ask("z", json!({ "op": "Sleep", "name": "2h", "opts": {} }));
            step.all([event, sleep, step.run("later", || Ok(json!(1)))]).map(Value::from)
        });
        let server = Server::start(&app.config(""));
        let run = server.start_run("group", json!({})).await;
        let mut before = waits(&server, &run).await;
        while before.len() < 3 {
            before = waits(&server, &run).await;
        }
        server.post("/events", json!({ "name": "go" })).await;
        app.called(3).await;
        server.until(&run, "waiting").await;
        before.remove("w");
        assert_eq!(waits(&server, &run).await, before, "{sdk:?}");
        let calls = app.calls();
        let steps: Vec<_> = calls.iter().map(|call| call.step.as_str()).collect();
        assert_eq!(steps, ["step", id_of("later").as_str(), "step"], "{sdk:?}");
        assert_eq!(calls[2].body["ctx"]["disable_immediate_execution"], true, "{sdk:?}");
    }
}

/// S24: a discovery that has failed waits for its next attempt, also if a wait ends meanwhile.
#[tokio::test]
async fn the_end_of_a_wait_leaves_a_failed_discovery_waiting() {
    let app = App::start(Sdk::One).await;
    app.function("fails", |step| {
        if step.call.step == "step" && step.call.body["steps"].get(id_of("a")).is_some() {
            let headers = vec![("x-inngest-sdk", "x".to_owned()), ("retry-after", "3600".into())];
            return Err(Stop::Answers(500, headers, error("Error", "later").to_string()));
        }
        let opts = json!({ "timeout": "1h" });
        let event = step.ask("w", json!({ "op": "WaitForEvent", "name": "go", "opts": opts }));
        step.all([event, step.run("a", || Ok(json!(1)))]).map(Value::from)
    });
    let server = Server::start(&app.config(""));
    let run = server.start_run("fails", json!({})).await;
    while !waits(&server, &run).await.contains_key("") {}
    server.post("/events", json!({ "name": "go" })).await;
    server.until(&run, "waiting").await;
    assert_eq!(app.calls().len(), 3);
}

/// A wait for an event is registered before a step of the same group is called, which may cause the
/// event.
#[tokio::test]
async fn a_wait_begins_before_its_siblings_are_called() {
    let app = App::start(Sdk::Two).await;
    app.function("causes", |step| {
        let opts = json!({ "timeout": "1h" });
        let wait = step.ask("wait", json!({ "op": "WaitForEvent", "name": "go", "opts": opts }));
        step.all([step.run("cause", || Ok(json!(1))), wait]).map(Value::from)
    });
    let server = Server::start(&app.config(""));
    app.shut(&["cause"]);
    for n in 1..=10 {
        server.start_run("causes", json!({})).await;
        app.called(2 * n).await;
        let (_, posted) = server.post("/events", json!({ "name": "go" })).await;
        assert_eq!(posted["events"][0]["woke"], 1, "run {n}: {posted}");
    }
    app.shut(&[]);
}

/// A targeted call may answer with the value of the function, which ends the run.
#[tokio::test]
async fn a_targeted_call_may_end_the_run() {
    let app = App::start(Sdk::Two).await;
    app.function("won", |step| {
        if step.call.step == id_of("fast") {
            return Ok(json!("won"));
        }
        step.race([step.run("slow", || Ok(json!(1))), step.run("fast", || Ok(json!(2)))])
    });
    let server = Server::start(&app.config(""));
    app.shut(&["slow"]);
    let run = server.start_run("won", json!({})).await;
    assert_eq!(server.until(&run, "completed").await["output"], "won");
    app.shut(&[]);
}

/// S44: one-of-three fails and is tried again alone, while the call of a sibling still lasts.
#[tokio::test]
async fn a_failed_member_is_tried_again_beside_a_long_call() {
    for sdk in [Sdk::One, Sdk::Two, Sdk::Python] {
        let app = App::start(sdk).await;
        app.function("one-of-three", |step| {
            let attempt = step.call.attempt();
            let flaky = move || match attempt {
                0 | 1 => Err(error("Error", "boom")),
                attempt => Ok(json!(attempt)),
            };
            let all = step.all([
                step.run("long", || Ok(json!(10))),
                step.run("flaky", flaky),
                step.run("good", || Ok(json!(1))),
            ])?;
            Ok(json!(sum(&all)))
        });
        let server = Server::start(&app.config(""));
        app.shut(&["long"]);
        let run = server.start_run("one-of-three", json!({})).await;
        while app.ran().iter().filter(|step| *step == "flaky").count() < 3 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        app.shut(&[]);
        assert_eq!(server.until(&run, "completed").await["output"], 13, "{sdk:?}");
        let mut ran = app.ran();
        ran.sort();
        assert_eq!(ran, ["flaky", "flaky", "flaky", "good", "long"], "{sdk:?}");
        let long = app.calls().iter().filter(|call| call.step == id_of("long")).count();
        assert_eq!(long, 1, "{sdk:?}: the long call must not be repeated");
    }
}

/// S45: the server is killed while one member of a group is recorded and another is called. The
/// recorded one is never called again.
#[tokio::test]
async fn a_killed_server_calls_no_recorded_member_again() {
    for sdk in [Sdk::One, Sdk::Two, Sdk::Python] {
        let app = App::start(sdk).await;
        app.function("three", three);
        let mut server = Server::start(&app.config(""));
        app.shut(&["b"]);
        let run = server.start_run("three", json!({})).await;
        while !(has_step(&server, &run, "a").await && has_step(&server, &run, "c").await) {}
        server.kill();
        app.shut(&[]);
        server.restart();
        assert_eq!(server.until(&run, "completed").await["output"], 6, "{sdk:?}");
        let count = |step| app.ran().iter().filter(|it| *it == step).count();
        assert_eq!((count("a"), count("c"), count("sum")), (1, 1, 1), "{sdk:?}");
    }
}
