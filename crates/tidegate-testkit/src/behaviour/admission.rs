//! Admission: the order in which controls act, and what a refused event leaves unchanged.

use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Command},
    flow::Verdict,
    row::{Class, Row},
};
use tidegate_store::dry_run;

use crate::world::{World, event};

/// Builds a definition with a name, from its controls.
fn named(name: &str, controls: &Value) -> Value {
    let mut definition = controls.clone();
    definition["name"] = json!(name);
    definition
}

/// Returns the outcome of a verdict, and the control that decided it.
fn said(verdict: &Verdict) -> String {
    match verdict.by() {
        Some(by) => format!("{} by {}", verdict.outcome(), by.control),
        None => verdict.outcome().to_owned(),
    }
}

/// The cases: two controls that would both act, the kind of the second event, and its outcome.
const ORDER: [(&str, &str, &str); 16] = [
    // Controls that act on arrival.
    ("handoff idempotency", "lacking", "rejected"),
    ("handoff rateLimit", "lacking", "rejected"),
    ("idempotency batch", "same", "deduped by idempotency"),
    ("idempotency rateLimit", "same", "deduped by idempotency"),
    ("idempotency skip", "same", "deduped by idempotency"),
    ("batch rateLimit", "another", "buffered by batch"),
    ("debounce rateLimit", "another", "coalesced by debounce"),
    ("debounce batch", "another", "coalesced by debounce"),
    ("rateLimit skip", "another", "dropped by rateLimit"),
    ("rateLimit executing", "another", "dropped by rateLimit"),
    // Controls that act on creation.
    ("skip run", "another", "skipped by singleton"),
    ("skip throttle", "another", "skipped by singleton"),
    ("cancel executing", "another", "replaced by singleton"),
    // Controls that act towards the start.
    ("handoff run", "another", "queued by handoff"),
    ("run throttle", "another", "queued by concurrency"),
    ("throttle executing", "another", "queued by throttle"),
];

/// Builds a definition with these controls; each of them admits the first event.
fn shaped(name: &str, controls: &str) -> Value {
    let mut definition = json!({ "name": name });
    for control in controls.split(' ') {
        let (field, value) = match control {
            "handoff" => {
                ("handoff", json!({ "type": "keyed", "keyField": "k", "onNewVersion": "drain" }))
            }
            "idempotency" => ("idempotency", json!({ "key": "id" })),
            "rateLimit" => ("rateLimit", json!({ "limit": 1, "perMs": 60_000 })),
            "debounce" => ("debounce", json!({ "periodMs": 1000 })),
            "batch" => ("batch", json!({ "maxSize": 9, "timeoutMs": 1000 })),
            "skip" => ("singleton", json!({ "mode": "skip" })),
            "cancel" => ("singleton", json!({ "mode": "cancel" })),
            "run" => ("concurrency", json!({ "limit": 1, "span": "run" })),
            "executing" => ("concurrency", json!({ "limit": 1 })),
            "throttle" => ("throttle", json!({ "limit": 1, "perMs": 60_000 })),
            other => panic!("this test has no control called `{other}`"),
        };
        definition[field] = value;
    }
    definition
}

fn data(which: &str) -> Value {
    match which {
        "another" => json!({ "id": 2, "k": 1 }),
        "lacking" => json!({ "id": 1 }),
        _ => json!({ "id": 1, "k": 1 }),
    }
}

/// spec A1: of two controls that would both act, the one that is first in the order does.
pub async fn controls_act_in_one_order(world: &World) {
    for (n, (controls, second, expected)) in ORDER.into_iter().enumerate() {
        let name = format!("w{n}");
        world.define(shaped(&name, controls)).await;
        world.send_for_run(&name, data("first")).await;
        let verdict = world.send(&name, data(second)).await;
        assert_eq!(said(&verdict), expected, "{controls}");
    }
    world.check_holds().await;
}

/// spec api: a dry run returns the verdict that an event would get, and writes nothing.
pub async fn a_dry_run_changes_nothing(world: &World) {
    for (n, (controls, second, expected)) in ORDER.into_iter().enumerate() {
        let name = format!("w{n}");
        world.define(shaped(&name, controls)).await;
        for (which, expected) in [("first", None), (second, Some(expected))] {
            let before = world.dump().await;
            let events = vec![event(&name, &data(which))];
            let command = world.salted(Command::Post { ws: world.ws.clone(), events });
            let (answer, _) = dry_run(&*world.store, command).await.unwrap();
            let Ok(Answer::Posted(posted)) = answer else { panic!("{answer:?}") };
            assert_eq!(world.dump().await, before, "{controls}");
            let dry = said(&posted[0].runs[0].verdict);
            assert!(expected.is_none_or(|expected| dry == expected), "{controls}: {dry}");
            assert_eq!(said(&world.send(&name, data(which)).await), dry, "{controls}");
        }
    }
}

/// spec A2, N28: an event that singleton skips spends no token of the rate limit, takes no claim,
/// and enters no queue.
pub async fn what_a_gate_skips_costs_nothing(world: &World) {
    let controls = json!({
        "singleton": { "mode": "skip" },
        "rateLimit": { "limit": 2, "perMs": 3_600_000 },
        "idempotency": { "key": "id" },
        "throttle": { "limit": 1, "perMs": 1000 },
    });
    world.define(named("sync", &controls)).await;
    world.send_for_run("sync", json!({ "id": 1 })).await;
    let run = world.lease_one().await;
    for _ in 0..5 {
        let verdict = world.send("sync", json!({ "id": 2 })).await;
        assert_eq!(said(&verdict), "skipped by singleton");
    }
    assert_eq!(world.alive("sync").await, 1, "a skipped event left a run behind");
    world.complete(&run).await;
    let verdict = world.send("sync", json!({ "id": 2 })).await;
    assert_eq!(said(&verdict), "queued by throttle", "a skipped event took a claim or a token");
    world.tick(1000).await;
    assert_eq!(
        Some(world.lease_one().await.id),
        verdict.run(),
        "another run is ahead in the queue"
    );
    world.check_holds().await;
}

/// spec A2, N28: a dropped event takes no claim and opens no window.
pub async fn what_a_rate_limit_drops_costs_nothing(world: &World) {
    let controls = json!({
        "rateLimit": { "limit": 1, "perMs": 1000 },
        "idempotency": { "key": "id" },
        "debounce": { "periodMs": 100 },
    });
    world.define(named("sync", &controls)).await;
    let first = world.send_for_run("sync", json!({ "id": 1 })).await;
    world.tick(100).await;
    assert_eq!(world.drain().await, [first]);
    let dropped = world.send("sync", json!({ "id": 2 })).await;
    assert_eq!(said(&dropped), "dropped by rateLimit");
    world.tick(900).await;
    assert!(world.drain().await.is_empty(), "a dropped event opened a window");
    let second = world.send("sync", json!({ "id": 2 })).await;
    assert_eq!(said(&second), "coalesced by debounce", "a dropped event took a claim");
    world.tick(100).await;
    assert_eq!(world.drain().await, [second.run().unwrap()]);
}

/// spec A2, N28: neither a repeat nor an event without a required key spends a token.
pub async fn what_is_deduped_or_rejected_costs_nothing(world: &World) {
    let controls = json!({
        "rateLimit": { "limit": 2, "perMs": 3_600_000 },
        "idempotency": { "key": "id" },
        "handoff": { "type": "keyed", "keyField": "k", "onNewVersion": "drain" },
    });
    world.define(named("sync", &controls)).await;
    for _ in 0..5 {
        assert_eq!(said(&world.send("sync", json!({ "id": 9 })).await), "rejected");
    }
    assert_eq!(said(&world.send("sync", json!({ "id": 1, "k": 1 })).await), "started");
    for _ in 0..5 {
        let verdict = world.send("sync", json!({ "id": 1, "k": 2 })).await;
        assert_eq!(said(&verdict), "deduped by idempotency");
    }
    assert_eq!(said(&world.send("sync", json!({ "id": 9, "k": 3 })).await), "started");
    let last = world.send("sync", json!({ "id": 4, "k": 4 })).await;
    assert_eq!(said(&last), "dropped by rateLimit");
}

/// spec A2: a run that is cancelled before it started leaves every queue and gives back its holds.
pub async fn a_run_cancelled_in_line_gives_everything_back(world: &World) {
    let controls = json!({
        "concurrency": [{ "limit": 2, "span": "run" }, { "limit": 1, "key": "k" }, { "limit": 1 }],
        "throttle": { "limit": 100, "perMs": 1000, "burst": 100 },
    });
    world.define(named("sync", &controls)).await;
    let first = world.send_for_run("sync", json!({ "k": 1 })).await;
    let second = world.send_for_run("sync", json!({ "k": 2 })).await;
    let third = world.send_for_run("sync", json!({ "k": 2 })).await;
    assert_eq!(world.inside("sync", Class::Keyed, "2").await, 1);
    world.cancel(second).await.unwrap();
    assert_eq!(
        world.inside("sync", Class::RunLimit, "(whole)").await,
        2,
        "the third run did not get the slot"
    );
    assert_eq!(world.inside("sync", Class::Keyed, "2").await, 1);
    world.cancel(third).await.unwrap();
    assert_eq!(world.inside("sync", Class::Keyed, "2").await, 0);
    assert_eq!(world.inside("sync", Class::Throttle, "(whole)").await, 1);
    assert_eq!(world.drain().await, [first]);
    world.check_holds().await;
}

/// spec N27: a window or buffer costs one token when it opens and one hold when it is flushed.
pub async fn a_fold_is_counted_once(world: &World) {
    let folds = [
        json!({ "debounce": { "periodMs": 100 } }),
        json!({ "batch": { "maxSize": 9, "timeoutMs": 100 } }),
    ];
    for (n, mut controls) in folds.into_iter().enumerate() {
        let name = format!("w{n}");
        controls["rateLimit"] = json!({ "limit": 2, "perMs": 3_600_000 });
        controls["concurrency"] = json!({ "limit": 1, "span": "run" });
        world.define(named(&name, &controls)).await;
        for _ in 0..2 {
            for _ in 0..5 {
                world.send_for_run(&name, json!({})).await;
                assert_eq!(world.inside(&name, Class::RunLimit, "(whole)").await, 0);
            }
            world.tick(100).await;
            assert_eq!(world.inside(&name, Class::RunLimit, "(whole)").await, 1, "{controls}");
            assert_eq!(world.drain().await.len(), 1, "{controls}");
        }
        let third = world.send(&name, json!({})).await;
        assert_eq!(said(&third), "dropped by rateLimit", "{controls}");
    }
    world.check_holds().await;
}

/// spec A3, B79, B80, B120: whatever the verdict of one workflow, an event is recorded, wakes the
/// runs that wait for it, and triggers the other workflows.
pub async fn what_one_workflow_refuses_is_still_an_event(world: &World) {
    let refusing = [
        (json!({ "rateLimit": { "limit": 1, "perMs": 60_000 } }), "dropped"),
        (json!({ "singleton": { "mode": "skip" } }), "skipped"),
        (json!({ "idempotency": {} }), "deduped"),
    ];
    world.define(json!({ "name": "waiter" })).await;
    for (n, (mut controls, outcome)) in refusing.into_iter().enumerate() {
        let (refuses, other, name) = (format!("a{n}"), format!("b{n}"), format!("event{n}"));
        controls["triggers"] = json!([{ "event": name }]);
        world.define(named(&refuses, &controls)).await;
        world.define(json!({ "name": other, "triggers": [{ "event": name }] })).await;
        world.post(&name, json!({})).await;
        world.send("waiter", json!({})).await;
        let runs = world.lease_all().await;
        let waiter = runs.iter().find(|run| run.workflow == "waiter").unwrap();
        world.wait_for(waiter, "wait", &name, &[]).await;
        let posted = world.post(&name, json!({ "n": 2 })).await;
        let said: Vec<_> = posted.runs.iter().map(|it| it.verdict.outcome()).collect();
        assert_eq!((posted.woke, said), (1, vec![outcome, "started"]));
        let rows = world.dump().await;
        assert!(rows.iter().any(|row| matches!(row, Row::Event(event) if event.id == posted.id)));
        world.drain().await;
    }
}

/// spec A5: a run that a schedule or a parent starts passes gates and throttle, and ignores
/// idempotency, rate limit and folds.
pub async fn schedules_and_calls_pass_gates_only(world: &World) {
    let rate = json!({ "limit": 1, "perMs": 60_000 });
    let cases = [
        (json!({ "idempotency": {} }), "started", "started"),
        (json!({ "rateLimit": rate }), "started", "started"),
        (json!({ "debounce": { "periodMs": 1000 } }), "started", "coalesced by debounce"),
        (json!({ "batch": { "maxSize": 9, "timeoutMs": 1000 } }), "started", "buffered by batch"),
        (json!({ "throttle": rate }), "queued by throttle", "queued by throttle"),
        (
            json!({ "concurrency": { "limit": 1 } }),
            "queued by concurrency",
            "queued by concurrency",
        ),
        (
            json!({ "singleton": { "mode": "skip" } }),
            "skipped by singleton",
            "skipped by singleton",
        ),
    ];
    world.define(json!({ "name": "caller" })).await;
    for (n, (controls, again, posted)) in cases.into_iter().enumerate() {
        let name = format!("w{n}");
        let mut definition = named(&name, &controls);
        definition["triggers"] = json!([name, { "cron": "@daily", "onOverlap": "allow" }]);
        world.define(definition).await;
        assert_eq!(said(&world.occur(&name, "@daily").await), "started", "{controls}");
        assert_eq!(said(&world.occur(&name, "@daily").await), again, "{controls}");
        world.send_for_run("caller", json!({})).await;
        let mut leased = world.lease_all().await;
        let caller = leased.iter().position(|run| run.workflow == "caller").unwrap();
        world.invoke(&leased.swap_remove(caller), "call", &name, json!({})).await;
        let alive = if again.starts_with("skipped") { 1 } else { 3 };
        assert_eq!(world.alive(&name).await, alive, "{controls}");
        // The runs above took no claim and no token that an event of the same workflow needs.
        let verdict = world.send(&name, json!({})).await;
        assert_eq!(said(&verdict), posted, "{controls}");
    }
    world.check_holds().await;
}

/// spec N1, N2, N3: an event starts every workflow that it triggers, once; an event that triggers
/// none is recorded all the same.
pub async fn an_event_starts_each_workflow_once(world: &World) {
    world.define(json!({ "name": "order.paid" })).await;
    let triggers = json!([{ "event": "order.*" }, { "event": "order.paid" }, { "event": "o*" }]);
    world.define(json!({ "name": "several", "triggers": triggers })).await;
    world.define(json!({ "name": "star", "triggers": [{ "event": "order.*" }] })).await;
    world.define(json!({ "name": "late", "triggers": [{ "event": "order.sent" }] })).await;
    let posted = world.post("order.paid", json!({})).await;
    let started: Vec<_> = posted.runs.iter().map(|it| it.workflow.as_str()).collect();
    assert_eq!(started, ["order.paid", "several", "star"]);
    assert_eq!(world.lease_all().await.len(), 3);
    let posted = world.post("nothing", json!({ "kept": true })).await;
    assert!(posted.runs.is_empty() && posted.woke == 0 && !posted.deduped);
    let rows = world.dump().await;
    assert!(rows.iter().any(|row| matches!(row, Row::Event(event) if event.id == posted.id)));
    assert!(
        world.post("late", json!({})).await.runs.is_empty(),
        "the event started a workflow that it does not trigger"
    );
}

/// spec B51: a workflow with all controls obeys all of them.
pub async fn all_controls_hold_at_once(world: &World) {
    let controls = json!({
        "idempotency": { "key": "id", "periodMs": 60_000 },
        "rateLimit": { "limit": 3, "perMs": 60_000 },
        "debounce": { "periodMs": 100, "key": "k" },
        "singleton": { "mode": "skip", "key": "k" },
        "throttle": { "limit": 1, "perMs": 1000 },
        "concurrency": [{ "limit": 1 }, { "limit": 1, "key": "k" }],
        "priority": { "shiftMs": 10 },
    });
    world.define(named("sync", &controls)).await;
    let a = world.send_for_run("sync", json!({ "id": 1, "k": "a" })).await;
    assert_eq!(world.send_for_run("sync", json!({ "id": 2, "k": "a" })).await, a, "one window");
    let b = world.send_for_run("sync", json!({ "id": 3, "k": "b" })).await;
    world.tick(100).await;
    let repeat = world.send("sync", json!({ "id": 2, "k": "c" })).await;
    assert_eq!(said(&repeat), "deduped by idempotency");
    let run = world.lease_one().await;
    assert_eq!(run.id, a, "throttle admits one run per second");
    let held = world.send_for_run("sync", json!({ "id": 1, "k": "a" })).await;
    let last = world.send("sync", json!({ "id": 5, "k": "d" })).await;
    assert_eq!(said(&last), "dropped by rateLimit", "three windows have spent all three tokens");
    world.tick(1000).await;
    assert!(world.lease_all().await.is_empty(), "one at a time");
    world.complete(&run).await;
    world.sweep().await;
    let run = world.lease_one().await;
    assert_eq!(run.id, b, "run b is older than the run of the window that the singleton held");
    world.complete(&run).await;
    assert!(world.lease_all().await.is_empty());
    world.tick(1000).await;
    assert_eq!(world.lease_one().await.id, held);
    world.check_holds().await;
}

/// spec M2, G4, I14: when the clock steps back, no key is blocked for longer than its period, and a
/// later run is still queued behind the earlier ones.
pub async fn a_clock_that_steps_back_keeps_order_and_shuts_nothing(world: &World) {
    world
        .define(json!({
            "name": "sync",
            "concurrency": { "limit": 1 },
            "rateLimit": { "limit": 2, "perMs": 1000 },
        }))
        .await;
    let before = [world.send("sync", json!({})).await, world.send("sync", json!({})).await];
    assert_eq!(world.send("sync", json!({})).await.outcome(), "dropped");
    world.clock.set(world.now().minus_ms(3_600_000));
    assert_eq!(world.send("sync", json!({})).await.outcome(), "dropped");
    world.pass(1000);
    let after = world.send("sync", json!({})).await;
    assert_eq!(after.outcome(), "queued", "the key is open again after one period");
    let mut served = Vec::new();
    for _ in 0..3 {
        let run = world.lease_one().await;
        served.push(run.id);
        world.complete(&run).await;
    }
    let sent = before.iter().chain([&after]).map(|verdict| verdict.run().unwrap());
    assert_eq!(served, sent.collect::<Vec<_>>());
    world.check_holds().await;
}
