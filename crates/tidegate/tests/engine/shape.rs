//! Rules for all controls: workflows without controls, every combination, and separate workspaces.

use serde_json::{Value, json};
use tidegate::{
    Batch, Concurrency, Ctx, Debounce, Idempotency, Rate, Retry, Singleton, StepError, Workflow,
    new_event, testing::TestHarness,
};
use tidegate_core::row::Row;

use crate::words::{Journal, ms, n, recorded, secs, sharing, start, state, states, verdict, work};

async fn nothing(_: Ctx, _: Value) -> tidegate::Result<()> {
    Ok(())
}

async fn gather(_: Ctx, _: Vec<Value>) -> tidegate::Result<()> {
    Ok(())
}

/// spec B49: a workflow without controls runs every event at once, in order.
pub(crate) async fn a_workflow_without_controls_is_not_shaped(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let plain = work(&journal, "plain", secs(1));
    let engine = harness.engine().workers(20).workflow(plain).start().await.unwrap();
    for n in 0..20 {
        let answer = verdict(&engine, "plain", json!({ "n": n })).await;
        assert_eq!(answer.outcome(), "started");
    }
    harness.advance(secs(1)).await;
    assert_eq!(states(harness, "plain").await, ["completed"; 20]);
    assert_eq!(journal.most("plain"), 20);
}

/// spec B50: every combination of the eight controls is a valid definition, and one event makes one
/// run that ends.
pub(crate) async fn any_controls_stand_together(harness: &TestHarness) {
    let controls = [
        ("concurrency", json!({ "limit": 1 })),
        ("throttle", json!({ "limit": 1, "perMs": 1000 })),
        ("rateLimit", json!({ "limit": 1, "perMs": 1000 })),
        ("debounce", json!({ "periodMs": 1000 })),
        ("batch", json!({ "maxSize": 2, "timeoutMs": 1000 })),
        ("priority", json!({ "shiftMs": 1000 })),
        ("singleton", json!({ "mode": "skip" })),
        ("idempotency", json!({ "key": "id", "periodMs": 60_000 })),
    ];
    let mut builder = harness.engine().workers(256);
    for set in 0..256_u32 {
        let mut definition = json!({ "name": format!("w{set}"), "triggers": ["all"] });
        for (place, (name, control)) in controls.iter().enumerate() {
            if set & (1 << place) != 0 {
                definition[*name] = control.clone();
            }
        }
        builder = builder.workflow(Workflow::from_definition(definition, nothing));
    }
    let engine = builder.start().await.unwrap();
    let posted = engine.send("all", json!({ "id": 1 })).await.unwrap();
    assert_eq!(posted.runs.len(), 256);
    harness.advance(secs(10)).await;
    let ended = harness.store().dump().await.unwrap().into_iter().filter_map(|row| {
        let Row::Ended(ended) = row else { return None };
        Some((ended.workflow, ended.ending.state()))
    });
    let ended: Vec<_> = ended.collect();
    assert_eq!(ended.len(), 256);
    for set in 0..256 {
        let one = (format!("w{set}"), "completed");
        assert!(ended.contains(&one), "the run did not end with the controls {set:#010b}");
    }
}

/// spec B52: a key may name a nested field of the event.
pub(crate) async fn a_nested_field_can_be_the_key(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let sync =
        work(&journal, "sync", secs(1)).concurrency(Concurrency::limit(1).key("shop.owner.id"));
    let engine = harness.engine().workflow(sync).start().await.unwrap();
    let mut answer = Vec::new();
    for id in [json!({ "owner": { "id": 1 } }), json!({ "owner": { "id": 2 } })] {
        for _ in 0..2 {
            answer.push(verdict(&engine, "sync", json!({ "shop": id })).await.outcome());
        }
    }
    assert_eq!(answer, ["started", "queued", "started", "queued"]);
    harness.advance(secs(2)).await;
    assert_eq!((states(harness, "sync").await.len(), journal.most("sync")), (4, 2));
}

/// spec B132, B146: limits, windows, buffers, claims and releases of one workspace do not affect
/// another.
pub(crate) async fn workspaces_share_nothing(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let engine = harness
        .engine()
        .workspaces(["one", "two"])
        .workflow(work(&journal, "limit", secs(1)).concurrency(Concurrency::limit(1)))
        .workflow(work(&journal, "rate", secs(1)).rate_limit(Rate::per_minute(1)))
        .workflow(work(&journal, "window", secs(1)).debounce(Debounce::quiet(secs(1))))
        .workflow(Workflow::new("buffer", gather).batch(Batch::of(3).within(secs(60))))
        .workflow(
            work(&journal, "once", secs(1)).idempotency(Idempotency::within(secs(60)).key("n")),
        )
        .workflow(work(&journal, "code", secs(1)).version(1))
        .workflow(work(&journal, "code", secs(1)).version(2))
        .start()
        .await
        .unwrap();
    let table = [
        ("limit", ["started", "queued"]),
        ("rate", ["started", "dropped"]),
        ("window", ["coalesced", "coalesced"]),
        ("buffer", ["buffered", "buffered"]),
        ("once", ["started", "deduped"]),
    ];
    let mut windows = Vec::new();
    for tenant in ["one", "two"] {
        let engine = engine.in_workspace(tenant);
        for (name, expected) in table {
            for expected in expected {
                let answer = verdict(&engine, name, json!({ "n": 1 })).await;
                assert_eq!(answer.outcome(), expected, "{tenant}: {name}");
                windows.extend((name == "window").then(|| answer.run()));
            }
        }
    }
    assert_eq!(windows[0], windows[1]);
    assert_ne!(windows[1], windows[2], "separate windows");

    engine.in_workspace("one").release("default", "code", 1).await.unwrap();
    for (tenant, version) in [("one", 1), ("two", 2)] {
        let engine = engine.in_workspace(tenant);
        let run = start(&engine, "code", json!({})).await;
        let (live, _) = engine.look_up(run).await.unwrap();
        assert_eq!(live.expect("the run is live").version, version, "{tenant}");
    }
}

/// spec N28: an event that a singleton skips uses up no rate limit, no idempotency key and no turn
/// of a throttle.
pub(crate) async fn what_one_control_refuses_costs_another_nothing(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let sync = work(&journal, "sync", secs(10))
        .singleton(Singleton::skip())
        .rate_limit(Rate::per_hour(2))
        .idempotency(Idempotency::within(secs(3600)).key("id"))
        .throttle(Rate::per_minute(1));
    let engine = harness.engine().workflow(sync).start().await.unwrap();
    start(&engine, "sync", json!({ "id": 1 })).await;
    for _ in 0..5 {
        let answer = verdict(&engine, "sync", json!({ "id": 2 })).await;
        assert_eq!(answer.outcome(), "skipped");
    }
    harness.advance(secs(10)).await;
    let answer = verdict(&engine, "sync", json!({ "id": 2 })).await;
    assert_eq!(answer.outcome(), "queued", "the event must be neither dropped nor deduped");
    harness.advance(secs(60)).await;
    assert_eq!(states(harness, "sync").await, ["completed"; 2]);
}

/// spec N30: a run that waits for a retry has not ended, so its singleton still excludes other
/// runs.
pub(crate) async fn a_run_between_its_tries_still_excludes_others(harness: &TestHarness) {
    let flaky = Workflow::new("flaky", |ctx: Ctx, _: Value| async move {
        let step = ctx.step("call", || async {
            if ctx.attempt("call") < 2 { Err(StepError::new("not now")) } else { Ok(()) }
        });
        step.await
    });
    let flaky = flaky.singleton(Singleton::skip()).retry(Retry::attempts(3).fixed(secs(60)));
    let engine = harness.engine().workflow(flaky).start().await.unwrap();
    let run = start(&engine, "flaky", json!({})).await;
    harness.advance(secs(10)).await;
    assert_eq!(state(harness, "flaky", run).await, "waiting");
    assert_eq!(verdict(&engine, "flaky", json!({})).await.outcome(), "skipped");
    harness.advance(secs(200)).await;
    assert_eq!(verdict(&engine, "flaky", json!({})).await.outcome(), "started");
}

/// spec B170, B171: an engine can read the state of a run that another engine drives, and does not
/// drive it itself.
pub(crate) async fn a_run_of_another_engine_is_seen_and_not_driven(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = || work(&journal, "order", secs(10));
    let one = sharing(harness).workflow(order()).start().await.unwrap();
    let two = sharing(harness).workers(0).workflow(order()).start().await.unwrap();
    let run = start(&two, "order", json!({ "n": 1 })).await;
    harness.advance(secs(5)).await;
    let (live, ended) = two.look_up(run).await.unwrap();
    assert!(live.is_some_and(|run| run.owner.is_some()) && ended.is_none());
    assert_eq!((one.driven(), two.driven()), (1, 0));
    harness.advance(secs(5)).await;
    assert_eq!(harness.completed(&two, run).await, json!({ "n": 1 }));
    assert_eq!(journal.take(), ["1"]);
}

/// spec N56, events: a payload that is too large or not JSON, an invalid name, or too many events
/// in one call create neither an event nor a run.
pub(crate) async fn a_bad_payload_makes_no_run(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let engine = harness.engine().workflow(work(&journal, "order", ms(0))).start().await.unwrap();
    let large = "x".repeat(512 * 1024);
    let refused = engine.send("order", json!({ "n": large })).await.unwrap_err().to_string();
    assert!(refused.contains("at most 524288 bytes"), "{refused}");
    for name in ["", "a\0b", &"x".repeat(257)] {
        let refused = engine.send(name, json!(1)).await.unwrap_err().to_string();
        assert!(refused.starts_with("event 0: its name must"), "{refused}");
    }
    let many = vec![new_event("order", 1).unwrap(); 1001];
    let refused = engine.send_all(many).await.unwrap_err().to_string();
    assert_eq!(refused, "at most 1000 events per call, got 1001");
    let map = std::collections::BTreeMap::from([((1, 2), 3)]);
    engine.send("order", map).await.unwrap_err();
    harness.settle().await;
    assert_eq!((recorded(harness, "order").await, states(harness, "order").await.len()), (0, 0));
    let run = start(&engine, "order", json!({ "n": 1 })).await;
    harness.settle().await;
    assert_eq!(n(&harness.completed(&engine, run).await), "1");
}
