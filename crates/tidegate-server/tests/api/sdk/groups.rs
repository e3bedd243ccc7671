//! Parallel steps (INNGEST 10, S40 to S46).

use serde_json::{Value, json};

use super::app::{App, Call, Flow, Sdk, Step, error, id_of};
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
