//! Workloads of the crash tests. Together they use all kinds of commands.

use std::time::Duration;

use serde_json::json;
use tidegate_core::{
    action::Flow,
    command::{Command, Refusal},
    idempotency_key::IdempotentRequest,
    pool::{Pool, PoolCommand},
    row::{BulkFilter, BulkWhat},
    session::SessionError,
};
use tidegate_testkit::world::{request, session, set};

use super::process::{Act, Process};

/// Events start runs that take several gates, are leased and complete.
pub(crate) async fn plain_events(process: &mut Process) {
    let definition = json!({
        "name": "order",
        "concurrency": [{ "limit": 2 }, { "limit": 1, "key": "id" }],
        "throttle": { "limit": 1, "perMs": 10, "burst": 2 },
        "idempotency": { "key": "n" },
    });
    process.serve(definition, &[Act::Step("pay")]).await;
    for n in 0..3 {
        process.post("order", json!({ "n": n, "id": n % 2 })).await;
    }
}

/// Events go into windows and buffers, which flush when they are full or when their time is over.
pub(crate) async fn events_into_folds(process: &mut Process) {
    let debounce = json!({ "name": "window", "debounce": { "periodMs": 50 } });
    let batch = json!({
        "name": "buffer", "triggers": ["order"], "batch": { "maxSize": 2, "timeoutMs": 100 },
    });
    process.serve(batch, &[Act::Step("index")]).await;
    process.serve(debounce, &[]).await;
    for n in 0..3 {
        process.post("order", json!({ "n": n })).await;
        process.post("window", json!({ "n": n })).await;
    }
}

/// A buffer stays open while the singleton gate has a holder: its run would be skipped.
pub(crate) async fn held_folds(process: &mut Process) {
    let definition = json!({
        "name": "order",
        "batch": { "maxSize": 2, "timeoutMs": 100 },
        "singleton": { "mode": "skip" },
    });
    process.serve(definition, &[Act::Sleep("nap", 500)]).await;
    for n in 0..5 {
        process.post("order", json!({ "n": n })).await;
        process.tick(60).await;
        process.hold().await;
    }
}

/// Requests to actions with the policies `queue` and `allow`, each with its own idempotency key.
pub(crate) async fn requests(process: &mut Process) {
    let flow = json!({
        "name": "chat",
        "actions": {
            "respond": { "concurrency": "queue", "idempotency": { "key": "input.n" } },
            "append": { "concurrency": "allow", "idempotency": { "key": "input.n" } },
        },
    });
    let flow = Flow::parse(&flow).expect("a good definition").value;
    for action in flow.actions {
        process.handle(&action.name, &[Act::Step("say")]);
        let (ws, workflow) = (process.world.ws.clone(), Box::new(action));
        let register = Command::Register { ws, workflow, dev: false };
        process.ask(register).await.expect("the action is registered");
    }
    for n in 0..4 {
        let action = if n % 2 == 0 { "respond" } else { "append" };
        let request = request("chat", action, Some("s"), None, &json!({ "n": n }));
        let ws = process.world.ws.clone();
        process.ask(Command::Dispatch { ws, request }).await.expect("the action exists");
    }
}

/// Runs with every kind of step, and with all the ways in which a report can continue or end a run.
pub(crate) async fn steps_and_their_outcomes(process: &mut Process) {
    let slots = json!({ "name": "order", "concurrency": { "limit": 1 } });
    let acts = [
        Act::Step("a"),
        Act::Shaky("b"),
        Act::Send("e", "told"),
        Act::Yield,
        Act::Sleep("c", 20),
        Act::Step("d"),
    ];
    process.serve(slots, &acts).await;
    process.serve(json!({ "name": "told" }), &[]).await;
    process.serve(json!({ "name": "fails" }), &[Act::Step("a"), Act::Fail]).await;
    process.post("order", json!(1)).await;
    process.post("fails", json!(1)).await;
}

/// Steps pass two pools, named in opposite orders, beside runs that use one of them. Most have to
/// wait: their runs park.
pub(crate) async fn steps_in_pools(process: &mut Process) {
    for name in ["left", "right"] {
        let pool = json!({ "name": name, "concurrency": { "limit": 1 } });
        let pool = Pool::parse(&pool).expect("a good pool").value;
        let (ws, command) = (process.world.ws.clone(), PoolCommand::Put(Box::new(pool)));
        process.ask(Command::Pool { ws, command }).await.expect("a new pool");
    }
    let acts = |pools| [Act::Step("a"), Act::Pooled("b", pools), Act::Sleep("c", 5)];
    let slots = json!({ "name": "order", "concurrency": { "limit": 2 } });
    process.serve(slots, &acts(["left", "right"])).await;
    process.serve(json!({ "name": "other" }), &acts(["right", "left"])).await;
    let user = json!({ "name": "user", "concurrency": [{ "pool": "right" }] });
    process.serve(user, &[Act::Step("a")]).await;
    for n in 0..2 {
        for name in ["order", "other", "user"] {
            process.post(name, json!(n)).await;
        }
    }
}

/// Runs wait for events and signals, which are sent from outside.
pub(crate) async fn waits_for_events_and_signals(process: &mut Process) {
    let slots = json!({ "name": "order", "concurrency": { "limit": 1 } });
    process.serve(slots, &[Act::Event("paid", "payment"), Act::Signal("go", "go")]).await;
    let first = process.post("order", json!(1)).await;
    let second = process.post("order", json!(2)).await;
    process.work().await;
    process.post("payment", json!(1)).await;
    process.work().await;
    for event in [first, second] {
        let run = process.run_of(event).await;
        process.signal(run, "go").await;
    }
}

/// A run starts child runs: one completes, one fails, and one is refused.
pub(crate) async fn children(process: &mut Process) {
    process.serve(json!({ "name": "good" }), &[Act::Step("a"), Act::Sleep("nap", 5)]).await;
    process.serve(json!({ "name": "bad" }), &[Act::Fail]).await;
    let acts = [Act::Child("one", "good"), Act::Child("two", "bad"), Act::Child("self", "order")];
    process.serve(json!({ "name": "order", "singleton": { "mode": "skip" } }), &acts).await;
    process.post("order", json!(1)).await;
}

/// Runs are cancelled or replaced, some while they wait and some while they are driven.
pub(crate) async fn cancelled_and_replaced(process: &mut Process) {
    let single = json!({ "name": "single", "singleton": { "mode": "cancel" } });
    process.serve(single, &[Act::Step("a")]).await;
    let slots = json!({ "name": "order", "concurrency": { "limit": 1 } });
    process.serve(slots, &[Act::Step("a")]).await;
    let driven = process.post("order", json!(1)).await;
    let in_line = process.post("order", json!(2)).await;
    process.post("order", json!(3)).await;
    process.hold().await;
    for event in [driven, in_line] {
        let run = process.run_of(event).await;
        process.cancel(run).await;
    }
    process.post("single", json!(1)).await;
    process.hold().await;
    process.post("single", json!(2)).await;
    process.post("single", json!(3)).await;
}

/// A driven run and a queued run are paused and resumed.
pub(crate) async fn paused_and_resumed(process: &mut Process) {
    let slots = json!({ "name": "order", "concurrency": { "limit": 1 } });
    process.serve(slots, &[Act::Step("a"), Act::Event("paid", "payment")]).await;
    let first = process.post("order", json!(1)).await;
    let second = process.post("order", json!(2)).await;
    let ws = process.world.ws.clone();
    process.hold().await;
    for event in [first, second] {
        let run = process.run_of(event).await;
        process.ask(Command::Pause { ws: ws.clone(), run }).await.expect("the run is paused");
    }
    process.work().await;
    for event in [first, second] {
        let run = process.run_of(event).await;
        process.ask(Command::Resume { ws: ws.clone(), run }).await.expect("the run is resumed");
    }
    process.work().await;
    process.post("payment", json!(1)).await;
}

/// The process also dies without a failure of the store, with leased runs and a cancelled run.
pub(crate) async fn lost_workers(process: &mut Process) {
    let slots =
        json!({ "name": "order", "concurrency": [{ "limit": 2 }, { "limit": 1, "key": "k" }] });
    process.serve(slots, &[Act::Step("a")]).await;
    for n in 0..3 {
        process.post("order", json!({ "n": n, "k": n })).await;
    }
    process.hold().await;
    process.restart().await;
    process.hold().await;
    let fourth = process.post("order", json!({ "n": 3, "k": 3 })).await;
    let run = process.run_of(fourth).await;
    process.cancel(run).await;
    process.restart().await;
}

/// A new version is released that supersedes driven runs and takes over queued runs.
pub(crate) async fn superseding_releases(process: &mut Process) {
    hand_over(process, "supersede").await;
}

/// A new version is released that waits until the runs of the old version have ended.
pub(crate) async fn draining_releases(process: &mut Process) {
    hand_over(process, "drain").await;
}

async fn hand_over(process: &mut Process, policy: &str) {
    let handoff = json!({ "type": "singleton", "onNewVersion": policy });
    let acts = [Act::Step("a"), Act::Sleep("nap", 5)];
    process.serve(json!({ "name": "order", "version": 1 }), &acts).await;
    process.post("order", json!(1)).await;
    process.post("order", json!(2)).await;
    process.hold().await;
    process.post("order", json!(3)).await;
    process.serve(json!({ "name": "order", "version": 2, "handoff": handoff }), &acts).await;
    process.post("order", json!(4)).await;
    let (ws, app, name) = (process.world.ws.clone(), "default".to_owned(), "order".to_owned());
    let again = Command::Release { ws, app, name, version: 2 };
    process.ask(again).await.expect("version 2 is registered");
    process.post("order", json!(5)).await;
}

/// The sweep deletes the unused gates of all controls.
pub(crate) async fn swept_gates(process: &mut Process) {
    let definition = json!({
        "name": "order",
        "idempotency": { "key": "n", "periodMs": 1000 },
        "rateLimit": { "limit": 5, "perMs": 1000 },
        "throttle": { "limit": 1, "perMs": 10 },
        "concurrency": { "limit": 1 },
        "singleton": { "key": "n" },
    });
    process.serve(definition, &[]).await;
    for n in 0..2 {
        process.post("order", json!({ "n": n })).await;
    }
    process.work().await;
    process.tick(120_000).await;
    let gates = process.world.dump().await;
    let classes = gates.iter().filter_map(|row| match row {
        tidegate_core::row::Row::Gate(gate) => gate.key.class(),
        _ => None,
    });
    let left: Vec<_> =
        classes.filter(|class| *class != tidegate_core::row::Class::Dedupe).collect();
    assert!(left.is_empty(), "gates that were not deleted: {left:?}");
}

/// Steps write to a session, at once and staged. Some runs complete, and one is replaced while it
/// has staged operations.
pub(crate) async fn sessions(process: &mut Process) {
    let flow = json!({
        "name": "chat",
        "actions": {
            "append": { "concurrency": "allow", "idempotency": { "key": "input.n" } },
            "edit": { "concurrency": "restart", "idempotency": { "key": "input.n" } },
        },
    });
    let flow = Flow::parse(&flow).expect("a good definition").value;
    process.handle("chat/append", &[Act::Count("a"), Act::Count("b")]);
    let edit = [Act::Count("a"), Act::Event("wait", "go"), Act::Count("b"), Act::Yield];
    process.handle("chat/edit", &edit);
    let ws = process.world.ws.clone();
    for action in flow.actions {
        let (ws, workflow) = (ws.clone(), Box::new(action));
        let register = Command::Register { ws, workflow, dev: false };
        process.ask(register).await.expect("the action is registered");
    }
    let (session, op) = (session("s"), set("n", json!(100)));
    let first = Command::Session { ws: ws.clone(), session, op, expected_version: Some(0) };
    let answer = process.ask(first).await;
    let again = Err(Refusal::Session(SessionError::Changed { expected: 0, actual: 1 }));
    assert!(answer.is_ok() || answer == again, "{answer:?}");
    for (n, action) in ["edit", "append", "edit"].into_iter().enumerate() {
        let request = request("chat", action, Some("s"), None, &json!({ "n": n }));
        let call = Command::Dispatch { ws: ws.clone(), request };
        process.ask(call).await.expect("the action exists");
        process.work().await;
    }
    process.post("go", json!(1)).await;
    process.work().await;
    let document = process.world.document("s").await;
    assert_eq!(document, json!({ "n": 104 }), "two runs must add 2 each to 100");
}

/// Runs with registered compensations fail, are cancelled and are replaced. New runs wait until the
/// compensations have ended.
pub(crate) async fn undone_and_handled(process: &mut Process) {
    let fails = json!({ "name": "fails", "onFailure": true, "singleton": { "key": "id" } });
    process.serve(fails, &[Act::Undo("undo"), Act::Step("a"), Act::Fail]).await;
    let waits = json!({ "name": "waits", "singleton": { "key": "id" } });
    process.serve(waits, &[Act::Undo("undo"), Act::Event("went", "go"), Act::Step("a")]).await;
    process.post("fails", json!({ "id": 1 })).await;
    let asleep = process.post("waits", json!({ "id": "asleep" })).await;
    process.post("waits", json!({ "id": "replaced asleep" })).await;
    process.work().await;
    let run = process.run_of(asleep).await;
    process.cancel(run).await;
    process.post("waits", json!({ "id": "replaced asleep", "n": 2 })).await;
    process.work().await;
    let driven = process.post("waits", json!({ "id": "driven" })).await;
    process.post("waits", json!({ "id": "replaced driven" })).await;
    process.work().await;
    process.post("go", json!(1)).await;
    process.hold().await;
    let run = process.run_of(driven).await;
    process.cancel(run).await;
    process.post("waits", json!({ "id": "replaced driven", "n": 2 })).await;
    process.work().await;
    process.post("go", json!(2)).await;
}

/// Runs time out while they wait and while they are driven, and their compensations run.
pub(crate) async fn timed_out(process: &mut Process) {
    let timed = json!({ "name": "timed", "timeoutMs": 50, "concurrency": { "limit": 1 } });
    process.serve(timed, &[Act::Undo("undo"), Act::Event("went", "go"), Act::Step("a")]).await;
    process.post("timed", json!(1)).await;
    process.work().await;
    process.post("timed", json!(2)).await;
    process.work().await;
    process.post("timed", json!(3)).await;
    process.hold().await;
    process.tick(50).await;
}

/// A run with more generations of children than one transaction cancels is cancelled, and then all
/// runs of a workflow.
pub(crate) async fn cancelled_in_chunks(process: &mut Process) {
    let family = ["a", "b", "c", "d", "e", "f", "g"];
    for two in family.windows(2) {
        process.serve(json!({ "name": two[0] }), &[Act::Child("next", two[1])]).await;
    }
    process.serve(json!({ "name": "g" }), &[Act::Event("paid", "payment")]).await;
    process.serve(json!({ "name": "order" }), &[Act::Event("paid", "payment")]).await;
    let first = process.post("a", json!(1)).await;
    for n in 0..3 {
        process.post("order", json!(n)).await;
    }
    process.work().await;
    let run = process.run_of(first).await;
    process.cancel(run).await;
    let filter = BulkFilter { workflow: Some("order".to_owned()), ..BulkFilter::default() };
    let what = BulkWhat::Cancel { reason: "all of it".to_owned() };
    let ws = process.world.ws.clone();
    process.ask(Command::Bulk { ws, what, filter }).await.expect("Bulk is never refused");
}

/// Events and a request are delivered later; one of the events is cancelled before.
pub(crate) async fn deferred_events(process: &mut Process) {
    process.serve(json!({ "name": "mail", "concurrency": { "limit": 1 } }), &[]).await;
    let flow = json!({ "name": "chat", "actions": { "say": { "concurrency": "queue" } } });
    for action in Flow::parse(&flow).expect("a good definition").value.actions {
        process.handle(&action.name, &[Act::Step("answer")]);
        let (ws, workflow) = (process.world.ws.clone(), Box::new(action));
        let register = Command::Register { ws, workflow, dev: false };
        process.ask(register).await.expect("the action is registered");
    }
    let mut ids = Vec::new();
    for n in 0..3 {
        ids.push(process.post_after("mail", json!(n), Some(50)).await);
    }
    let request = request("chat", "say", Some("s"), None, &json!(1));
    let request = request.delay(Duration::from_millis(60));
    let ws = process.world.ws.clone();
    let (id, hash) = ("say".to_owned(), String::new());
    let asked = IdempotentRequest { ws: ws.clone(), id, hash };
    let command = Box::new(Command::Dispatch { ws: ws.clone(), request });
    process.ask(Command::Once { asked, command }).await.expect("the action exists");
    let (event, reason) = (ids[1], String::new());
    let answer = process.ask(Command::CancelDelivery { ws, event, reason }).await;
    let again = Err(Refusal::DeliveryEnded { event, end: "cancelled" });
    assert!(answer.is_ok() || answer == again, "{answer:?}");
    process.post("mail", json!("at once")).await;
    process.work().await;
    process.tick(100).await;
    process.work().await;
}
