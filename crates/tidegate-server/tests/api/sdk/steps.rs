//! Steps of functions: values, errors, attempts (INNGEST 10, S13 to S31).

use serde_json::{Value, json};

use tidegate_core::time::Timestamp;

use super::app::{App, Sdk, Stop, error, id_of};
use crate::server::Server;

/// S13, S16, S18, S28: a function without steps is called once, one with two steps three times; each
/// call has the memos of all steps before.
#[tokio::test]
async fn a_function_is_called_once_for_each_step_and_once_for_its_end() {
    let app = App::start(Sdk::Two).await;
    app.function("plain", |step| Ok(json!({ "got": step.call.body["event"]["data"] })));
    app.function("steps", |step| {
        let a = step.run("one", || Ok(json!({ "n": 1 })))?;
        step.run("nothing", || Ok(Value::Null))?;
        Ok(json!(a["n"].as_i64().unwrap() + 1))
    });
    let server = Server::start(&app.config(""));
    let run = server.start_run("plain", json!({ "a": 1.5 })).await;
    assert_eq!(server.until(&run, "completed").await["output"], json!({ "got": { "a": 1.5 } }));
    assert_eq!(app.calls().len(), 1);
    let run = server.start_run("steps", json!({})).await;
    assert_eq!(server.until(&run, "completed").await["output"], 2);
    let calls = &app.calls()[1..];
    assert_eq!(calls.len(), 3);
    assert!(calls.iter().all(|call| call.attempt() == 0 && call.step == "step"));
    let last = &calls[2].body;
    assert_eq!(last["ctx"]["run_id"], run.as_str());
    let stack = last["ctx"]["stack"]["stack"].as_array().unwrap();
    assert_eq!(last["steps"][stack[0].as_str().unwrap()], json!({ "data": { "n": 1 } }));
    assert_eq!(last["steps"][stack[1].as_str().unwrap()], json!({ "data": null }));
    assert_eq!(app.ran(), ["one", "nothing"]);
}

/// S17: with checkpoints, a function of two steps is one call, whose steps are posted one by one.
#[tokio::test]
async fn a_checkpoint_records_each_step_during_one_call() {
    let app = App::start(Sdk::Checkpoints).await;
    app.function("steps", |step| {
        let a = step.run("one", || Ok(json!(20)))?;
        let b = step.run("two", move || Ok(json!(a.as_i64().unwrap() + 1)))?;
        Ok(json!({ "sum": b }))
    });
    let server = Server::start(&app.config(""));
    server.url().clone_into(&mut app.server.lock().unwrap());
    let run = server.start_run("steps", json!({})).await;
    assert_eq!(server.until(&run, "completed").await["output"], json!({ "sum": 21 }));
    assert_eq!((app.calls().len(), app.checkpoints.lock().unwrap().clone()), (1, vec![200, 200]));
    let (_, steps) = server.get(&format!("/runs/{run}/steps")).await;
    let names: Vec<_> = steps["steps"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert_eq!(names, ["one", "two"], "steps have the names of the user's code");
    app.function("group", |step| {
        step.run("first", || Ok(json!(0)))?;
        step.all([step.run("a", || Ok(json!(1))), step.run("b", || Ok(json!(2)))]).map(Value::from)
    });
    let server = Server::start(&app.config(""));
    server.url().clone_into(&mut app.server.lock().unwrap());
    let run = server.start_run("group", json!({})).await;
    assert_eq!(server.until(&run, "completed").await["output"], json!([1, 2]));
    assert_eq!(app.calls().len(), 1 + 4, "the calls of a group have the steps posted before it");
}

/// An SDK that buffers its checkpoints answers with the last steps and the end together.
#[tokio::test]
async fn steps_that_come_with_the_end_are_recorded() {
    let app = App::start(Sdk::Two).await;
    app.function("buffered", |_| {
        let ran =
            |name: &str| json!({ "op": "StepRun", "id": id_of(name), "name": name, "data": 1 });
        let end = json!({ "op": "RunComplete", "id": "x", "data": "done" });
        let answer = json!([ran("one"), ran("two"), end]).to_string();
        let headers = vec![("x-inngest-sdk", "js:v4".to_owned())];
        Err(Stop::Answers(206, headers, answer))
    });
    let server = Server::start(&app.config(""));
    let run = server.start_run("buffered", json!({})).await;
    assert_eq!(server.until(&run, "completed").await["output"], "done");
    let (_, steps) = server.get(&format!("/runs/{run}/steps")).await;
    assert_eq!(steps["steps"].as_array().unwrap().len(), 2, "{steps}");
    assert_eq!(app.calls().len(), 1);
}

/// S19: the same id in a loop names several steps, in order.
#[tokio::test]
async fn a_repeated_id_names_several_steps() {
    let app = App::start(Sdk::Two).await;
    app.function("loop", |step| {
        let each = |n: i64| step.run("same", move || Ok(json!(n)));
        Ok(json!([each(0)?, each(1)?, each(2)?]))
    });
    let server = Server::start(&app.config(""));
    let run = server.start_run("loop", json!({})).await;
    assert_eq!(server.until(&run, "completed").await["output"], json!([0, 1, 2]));
    let (_, steps) = server.get(&format!("/runs/{run}/steps")).await;
    let names: Vec<_> = steps["steps"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert_eq!(names, ["same", "same:1", "same:2"]);
}

/// S20, S28: a step that throws twice is tried a third time, and the step before it does not run
/// again. Attempts count from 0 for each step.
#[tokio::test]
async fn a_step_that_throws_is_tried_again_alone() {
    for sdk in [Sdk::One, Sdk::Two, Sdk::Checkpoints, Sdk::Python] {
        let app = App::start(sdk).await;
        app.function("flaky", |step| {
            let attempt = step.call.attempt();
            step.run("one", || Ok(json!(1)))?;
            step.run("two", move || match attempt {
                0 | 1 => Err(error("Error", "boom")),
                attempt => Ok(json!(attempt)),
            })?;
            step.run("three", || Ok(json!(3)))
        });
        let server = Server::start(&app.config(""));
        server.url().clone_into(&mut app.server.lock().unwrap());
        let run = server.start_run("flaky", json!({})).await;
        assert_eq!(server.until(&run, "completed").await["output"], 3, "{sdk:?}");
        assert_eq!(app.ran(), ["one", "two", "two", "two", "three"], "{sdk:?}");
        let attempts: Vec<_> = app.calls().iter().map(super::app::Call::attempt).collect();
        let expected: &[_] = if sdk == Sdk::Checkpoints { &[0, 1, 2] } else { &[0, 0, 1, 2, 0, 0] };
        assert_eq!(attempts, expected, "{sdk:?}");
    }
}

/// S28: attempts begin anew after a success, those of the function itself, too.
#[tokio::test]
async fn a_success_gives_all_attempts_back() {
    let app = App::start(Sdk::Two).await;
    app.function("resets", |step| {
        if step.call.attempt() < 2 {
            return Err(Stop::Throws(error("Error", "outside")));
        }
        step.run("one", || Ok(json!("done")))
    });
    let server = Server::start(&app.config(""));
    let run = server.start_run("resets", json!({})).await;
    assert_eq!(server.until(&run, "completed").await["output"], "done");
    let attempts: Vec<_> = app.calls().iter().map(super::app::Call::attempt).collect();
    assert_eq!(attempts, [0, 1, 2, 0, 1, 2]);
}

/// S21, S27: after its last attempt a step has failed; the function gets the error as it was thrown,
/// and may catch it.
#[tokio::test]
async fn a_step_that_always_throws_fails_and_can_be_caught() {
    let app = App::start(Sdk::Two).await;
    let thrown = error("TypeError", "boom");
    let again = thrown.clone();
    app.function("caught", move |step| {
        let thrown = again.clone();
        match step.run("bad", move || Err(thrown)) {
            Err(Stop::Throws(error)) => Ok(json!({ "caught": error })),
            other => other,
        }
    });
    let server = Server::start(&app.config(""));
    let run = server.start_run("caught", json!({})).await;
    assert_eq!(server.until(&run, "completed").await["output"], json!({ "caught": thrown }));
    assert_eq!(app.ran(), ["bad"; 3]);
}

/// S22, S25, S27: an error that is not caught fails the run, with its name and message, after the
/// attempts of the function.
#[tokio::test]
async fn an_error_that_is_not_caught_fails_the_run() {
    let app = App::start(Sdk::Two).await;
    app.function("step", |step| step.run("bad", || Err(error("RangeError", "too far"))));
    app.function("outside", |step| {
        step.run("one", || Ok(json!(1)))?;
        Err(Stop::Throws(error("SyntaxError", "outside")))
    });
    let server = Server::start(&app.config(""));
    for (function, code, message, calls) in
        [("step", "RangeError", "too far", 6), ("outside", "SyntaxError", "outside", 4)]
    {
        let before = app.calls().len();
        let run = server.start_run(function, json!({})).await;
        let error = &server.until(&run, "failed").await["error"];
        assert_eq!((&error["code"], &error["message"]), (&json!(code), &json!(message)));
        assert_eq!(app.calls().len() - before, calls, "{function}");
    }
    assert_eq!(app.ran(), ["bad", "bad", "bad", "one"]);
}

/// A function has as many attempts as its definition says.
#[tokio::test]
async fn every_attempt_is_made() {
    let app = App::start(Sdk::Two).await;
    app.function("outside", |_| Err(Stop::Throws(error("Error", "outside"))));
    let server = Server::start(&app.config("").replace("maxAttempts = 3", "maxAttempts = 7"));
    let run = server.start_run("outside", json!({})).await;
    server.until(&run, "failed").await;
    let attempts: Vec<_> = app.calls().iter().map(super::app::Call::attempt).collect();
    assert_eq!(attempts, [0, 1, 2, 3, 4, 5, 6]);
    assert!(app.calls().iter().all(|call| call.body["ctx"]["max_attempts"] == 7));
}

/// S23, S26: an error that is final is not tried again, in a step and outside.
#[tokio::test]
async fn a_final_error_is_not_tried_again() {
    let app = App::start(Sdk::Two).await;
    let sdk = |no_retry| {
        vec![("x-inngest-sdk", "py".to_owned()), ("x-inngest-no-retry", String::from(no_retry))]
    };
    app.function("step", |step| {
        let mut thrown = error("NonRetriableError", "never");
        thrown["final"] = json!(true);
        match step.run("bad", || Err(thrown)) {
            Err(Stop::Throws(error)) => Ok(error["name"].clone()),
            other => other,
        }
    });
    app.function("js", move |_| {
        Err(Stop::Answers(400, sdk("true"), error("Error", "stop").to_string()))
    });
    app.function("python", move |_| {
        Err(Stop::Answers(500, sdk("true"), error("Error", "stop").to_string()))
    });
    let server = Server::start(&app.config(""));
    let run = server.start_run("step", json!({})).await;
    assert_eq!(server.until(&run, "completed").await["output"], "NonRetriableError");
    for function in ["js", "python"] {
        let run = server.start_run(function, json!({})).await;
        assert_eq!(server.until(&run, "failed").await["error"]["message"], "stop");
    }
    assert_eq!(app.calls().len(), 4, "{:?}", app.ran());
}

/// S24: the delay of `Retry-After` is kept, as seconds and as a date.
#[tokio::test]
async fn the_delay_that_the_app_asks_for_is_kept() {
    let app = App::start(Sdk::Two).await;
    let of = |function: &str, value: &'static str| {
        app.function(function, move |step| {
            if step.call.attempt() > 0 {
                return Ok(json!("again"));
            }
            let value = match value {
                "date" => Timestamp::from_ms(now_ms() + 3_600_000).rfc3339(),
                seconds => seconds.to_owned(),
            };
            let sdk = ("x-inngest-sdk", "js".to_owned());
            let headers = vec![sdk, ("retry-after", value)];
            Err(Stop::Answers(500, headers, error("RetryAfterError", "later").to_string()))
        });
    };
    of("seconds", "3600");
    of("date", "date");
    of("soon", "1");
    let server = Server::start(&app.config(""));
    for function in ["seconds", "date"] {
        let run = server.start_run(function, json!({})).await;
        server.until(&run, "waiting").await;
        let (_, why) = server.get(&format!("/runs/{run}/why")).await;
        let until = why["waits"][0]["until"].as_str().unwrap_or_else(|| panic!("{why}"));
        let until = Timestamp::parse_rfc3339(until).unwrap().micros() / 1000;
        let ahead = until - now_ms();
        assert!((3_500_000..3_700_000).contains(&ahead), "{function}: {ahead} ms, {why}");
    }
    let run = server.start_run("soon", json!({})).await;
    assert_eq!(server.until(&run, "completed").await["output"], "again");
}

#[expect(clippy::disallowed_methods, reason = "the app has a clock of its own")]
pub(super) fn now_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

/// S31: a step that the code no longer has is tried again, and then the run fails: no endless loop.
/// With the code restored, it goes on.
#[tokio::test]
async fn a_step_that_the_code_no_longer_has_ends_the_run() {
    for sdk in [Sdk::Two, Sdk::Python, Sdk::Go] {
        let app = App::start(sdk).await;
        app.function("gone", |step| {
            let branch = |name: &str| {
                // A call of the step itself runs other code.
                let name = if step.call.step == "step" { name } else { "renamed" };
                step.run(name, || Ok(json!(1)))
            };
            step.all([branch("a"), branch("b")]).map(Value::from)
        });
        let server = Server::start(&app.config(""));
        let run = server.start_run("gone", json!({})).await;
        let error = &server.until(&run, "failed").await["error"];
        let message = error["message"].as_str().unwrap();
        let named = match sdk {
            Sdk::Python | Sdk::Go => message.contains("did not run step `"),
            Sdk::One | Sdk::Two | Sdk::Checkpoints => message == "Could not find step to run",
        };
        assert!(named, "{sdk:?}: {error}");
        assert!(app.calls().len() <= 20, "{}", app.calls().len());
        assert_eq!(app.ran(), [""; 0]);
    }
}
