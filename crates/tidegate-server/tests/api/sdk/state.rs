//! Large state, leases of checkpoints, several servers and signatures (INNGEST 10, S46, S57 to S61).

use std::collections::BTreeSet;

use serde_json::json;

use super::app::{App, Sdk, id_of};
use crate::{
    fleet::{Fleet, On},
    server::Server,
};

/// S57: more than 4 MB of memos are fetched by JS and Python, and sent to Go.
#[tokio::test]
async fn a_large_state_reaches_the_app() {
    for sdk in [Sdk::Two, Sdk::Python, Sdk::Go] {
        let app = App::start(sdk).await;
        app.function("large", |step| {
            let mut bytes = 0;
            for n in 0..4 {
                let value = step.run(&format!("part {n}"), || Ok(json!("x".repeat(1_500_000))))?;
                bytes += value.as_str().unwrap().len();
            }
            Ok(json!(bytes))
        });
        let server = Server::start(&app.config(""));
        server.url().clone_into(&mut app.server.lock().unwrap());
        let run = server.start_run("large", json!({})).await;
        assert_eq!(server.until(&run, "completed").await["output"], 6_000_000, "{sdk:?}");
        let last = &app.calls().pop().unwrap().body;
        assert_eq!(last["use_api"], sdk != Sdk::Go, "{sdk:?}");
        assert_eq!(last["steps"].as_object().unwrap().len(), if sdk == Sdk::Go { 4 } else { 0 });
        assert_eq!(last["ctx"]["stack"]["stack"].as_array().unwrap().len(), 4, "{sdk:?}");
    }
}

/// The events of a batch can be fetched, in their order, while the run is there.
#[tokio::test]
async fn the_events_of_a_run_can_be_fetched() {
    let app = App::start(Sdk::Two).await;
    app.function("batch", |step| {
        step.all([step.run("a", || Ok(json!(1))), step.run("b", || Ok(json!(2)))]).map(|_| json!(1))
    });
    let config = app.config("").replace(
        "name = \"batch\"\n",
        "name = \"batch\"\nbatch = { maxSize = 3, timeoutMs = 60000 }\n",
    );
    let server = Server::start(&config);
    app.shut(&["a"]);
    let events: Vec<_> = (0..3).map(|n| json!({ "name": "batch", "data": { "n": n } })).collect();
    server.post("/events", json!(events)).await;
    app.called(3).await;
    let call = &app.calls()[0];
    let numbers = |events: &serde_json::Value| -> Vec<i64> {
        let events = events.as_array().unwrap().iter();
        events.map(|event| event["data"]["n"].as_i64().unwrap()).collect()
    };
    assert_eq!(numbers(&call.body["events"]), [0, 1, 2]);
    server.url().clone_into(&mut app.server.lock().unwrap());
    assert_eq!(app.fetch(call, "batch").await, call.body["events"]);
    app.shut(&[]);
    let unknown = server.raw("GET", "/v0/runs/none/actions", &[], "").await.unwrap();
    assert_eq!((unknown.status, &unknown.json()["status"]), (404, &json!(404)));
}

/// S58: a call whose server was killed goes on, and its checkpoint is refused with 409, because
/// another call has taken over. Every step is recorded once.
#[tokio::test]
async fn a_checkpoint_of_a_superseded_call_is_refused() {
    let app = App::start(Sdk::Checkpoints).await;
    app.function("steps", |step| {
        let lease = step.call.body["ctx"]["qi_id"].clone();
        step.run("one", move || Ok(lease))?;
        step.run("two", || Ok(json!(2)))?;
        step.run("three", || Ok(json!(3)))
    });
    let mut server = Server::start(&app.config(""));
    server.url().clone_into(&mut app.server.lock().unwrap());
    app.shut(&["step"]);
    let run = server.start_run("steps", json!({})).await;
    app.called(1).await;
    server.kill();
    server.restart();
    server.url().clone_into(&mut app.server.lock().unwrap());
    app.called(2).await;
    app.shut(&[]);
    assert_eq!(server.until(&run, "completed").await["output"], 3);
    let leases: Vec<_> = app.calls().iter().map(|it| it.body["ctx"]["qi_id"].clone()).collect();
    assert_ne!(leases[0], leases[1]);
    let calls = app.calls();
    let header = |name: &str| -> Vec<&str> {
        calls.iter().map(|call| call.headers[name].to_str().unwrap()).collect()
    };
    let generations: Vec<u32> =
        header("x-inngest-generation-id").iter().map(|it| it.parse().unwrap()).collect();
    assert!(generations[0] < generations[1], "{generations:?}");
    assert_ne!(header("x-request-id")[0], header("x-request-id")[1]);
    let (_, steps) = server.get(&format!("/runs/{run}/steps")).await;
    assert_eq!(steps["steps"].as_array().unwrap().len(), 3, "{steps}");
    assert_eq!(steps["steps"][0]["output"], leases[1], "the step of the newer call is recorded");
    assert!(app.checkpoints.lock().unwrap().contains(&409), "{:?}", app.checkpoints);
}

/// S60: checkpoints that no server takes: the function goes on step by step.
#[tokio::test]
async fn a_run_finishes_without_checkpoints() {
    let app = App::start(Sdk::Checkpoints).await;
    app.function("steps", |step| {
        step.run("one", || Ok(json!(1)))?;
        step.run("two", || Ok(json!(2)))
    });
    let server = Server::start(&app.config(""));
    format!("{}/nowhere", server.url()).clone_into(&mut app.server.lock().unwrap());
    let run = server.start_run("steps", json!({})).await;
    assert_eq!(server.until(&run, "completed").await["output"], 2);
    assert_eq!((app.calls().len(), app.ran()), (3, vec!["one".to_owned(), "two".to_owned()]));
}

/// S46, S59: two servers on one store. A checkpoint is taken by either, and each step of a group is
/// called once.
#[tokio::test]
async fn two_servers_share_the_runs_of_an_app() {
    let app = App::start(Sdk::Checkpoints).await;
    app.function("steps", |step| {
        for n in 0..6 {
            step.run("same", move || Ok(json!(n)))?;
        }
        let both = [step.run("a", || Ok(json!(1))), step.run("b", || Ok(json!(2)))];
        step.all(both).map(serde_json::Value::from)
    });
    let Some(fleet) = Fleet::start(On::Postgres, &app.config(""), &[]).await else { return };
    let urls: Vec<_> = (0..fleet.len()).map(|_| fleet.next().url().to_owned()).collect();
    *app.server.lock().unwrap() = urls.join(" ");
    let mut runs = Vec::new();
    for _ in 0..20 {
        runs.push(fleet.next().start_run("steps", json!({})).await);
    }
    for run in &runs {
        let run = fleet.next().until(run, "completed").await;
        assert_eq!(run["output"], json!([1, 2]));
    }
    assert!(app.checkpoints.lock().unwrap().iter().all(|status| *status == 200));
    assert_eq!(app.checkpoints.lock().unwrap().len(), 20 * 6);
    let count = |step: &str| app.ran().iter().filter(|it| *it == step).count();
    assert_eq!((count("same"), count("a"), count("b")), (120, 20, 20));
    let groups = app.calls().iter().filter(|call| call.step == id_of("a")).count();
    assert_eq!(groups, 20);
}

/// S61: with keys, a call is signed, and an app that signs with another key is refused by name.
#[tokio::test]
async fn calls_are_signed_and_answers_are_checked() {
    let app = App::start(Sdk::Two).await;
    app.function("signed", |step| step.run("one", || Ok(json!(1.5))));
    app.function("forged", |_| {
        let sdk = ("x-inngest-sdk", "js".to_owned());
        let signature = ("x-inngest-signature", "t=1&s=00".to_owned());
        Err(super::app::Stop::Answers(200, vec![sdk, signature], "1".to_owned()))
    });
    let keys = [("INNGEST_SIGNING_KEY", "signkey-prod-12345678"), ("INNGEST_EVENT_KEY", "k")];
    let server = Server::start_with(&app.config(""), &keys);
    let run = server.start_run("signed", json!({ "f": 1.0, "ü": [null, 1e21] })).await;
    assert_eq!(server.until(&run, "completed").await["output"], 1.5);
    let requests: BTreeSet<_> =
        app.calls().iter().map(|call| call.headers["x-request-id"].clone()).collect();
    assert_eq!(requests.len(), app.calls().len(), "each call has its own id");
    for call in app.calls() {
        let header = |name: &str| call.headers[name].to_str().unwrap().to_owned();
        assert_eq!(header("x-inngest-server-kind"), "cloud");
        assert_eq!((header("x-run-id"), header("x-inngest-step-id")), (run.clone(), "step".into()));
        let signature = header("x-inngest-signature");
        assert!(signature.starts_with("t=") && signature.contains("&s="), "{signature}");
    }
    let run = server.start_run("forged", json!({})).await;
    let error = &server.until(&run, "failed").await["error"];
    assert!(error["message"].as_str().unwrap().contains("wrongly signed"), "{error}");
}
