//! Singleton: at most one live run. Either the old run is kept, or the new run replaces it.

use serde_json::{Value, json};
use tidegate::{Ctx, Singleton, Workflow, testing::TestHarness};
use tidegate_core::row::Ending;

use crate::words::{Journal, ms, n, recorded, secs, sharing, start, states, verdict, work};

/// A workflow that works, sleeps, and works again.
fn nap(journal: &Journal, singleton: Singleton) -> Workflow<Value, Value> {
    let journal = journal.clone();
    Workflow::new("order", move |ctx: Ctx, input: Value| {
        let journal = journal.clone();
        async move {
            for part in ["a", "b"] {
                ctx.step(part, || async {
                    journal.work("order", format!("{}{part}", n(&input)), secs(1)).await;
                    Ok(())
                })
                .await?;
                ctx.sleep(format!("nap-{part}"), secs(10)).await?;
            }
            Ok(input)
        }
    })
    .singleton(singleton)
}

/// spec B106, B107, B108, B112, B114: while a run is live (driven, asleep or paused), a new one is
/// skipped, and its verdict names the holder. The event is still recorded and wakes waiting runs.
pub(crate) async fn skip_keeps_the_live_run(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let waiter = Workflow::new("waiter", |ctx: Ctx, _: Value| async move {
        ctx.wait_for_event::<Value>("order", "order").await
    });
    let order = nap(&journal, Singleton::skip());
    let engine = harness.engine().workflow(order).workflow(waiter).start().await.unwrap();
    let first = start(&engine, "order", json!({ "n": 0 })).await;
    let waiting = start(&engine, "waiter", json!({})).await;
    for (time, state) in [(0, "running"), (5000, "waiting"), (0, "paused")] {
        harness.advance(ms(time)).await;
        if state == "paused" {
            engine.pause(first).await.unwrap();
        }
        assert_eq!(states(harness, "order").await, [state]);
        let answer = verdict(&engine, "order", json!({ "n": 1 })).await.to_value();
        assert_eq!((&answer["outcome"], &answer["skipped"]), (&json!("skipped"), &json!(true)));
        assert_eq!((&answer["control"], &answer["holder"]), (&json!("singleton"), &json!(first)));
    }
    assert_eq!(recorded(harness, "order").await, 4);
    assert_eq!(harness.completed(&engine, waiting).await, json!({ "n": 1 }));
    engine.resume(first).await.unwrap();
    harness.advance(secs(60)).await;
    harness.completed(&engine, first).await;
    let next = start(&engine, "order", json!({ "n": 2 })).await;
    harness.advance(secs(60)).await;
    harness.completed(&engine, next).await;
    assert_eq!(journal.take(), ["0a", "0b", "2a", "2b"]);
}

/// spec B109, B110, B115, G7: a new run replaces the live one in every state. No step of the old
/// run starts after the first step of the new one.
pub(crate) async fn cancel_replaces_the_live_run(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = nap(&journal, Singleton::cancel());
    let engine = harness.engine().workflow(order).start().await.unwrap();
    let mut runs = Vec::new();
    // The first run is replaced while it is driven, the second while it is asleep, the third while
    // it is driven after its sleep.
    for (n, time) in [(0, 500), (1, 5000), (2, 11_500), (3, 60_000)] {
        let answer = verdict(&engine, "order", json!({ "n": n })).await;
        let expected = if n == 0 { "started" } else { "replaced" };
        assert_eq!(answer.outcome(), expected);
        runs.extend(answer.run());
        harness.advance(ms(time)).await;
    }
    assert_eq!(journal.take(), ["0a", "1a", "2a", "2b", "3a", "3b"]);
    assert_eq!(journal.most("order"), 1, "two runs were driven at once");
    let ended = harness.runs("order").await;
    for n in 0..3 {
        let by = Some(runs[n + 1]);
        let replaced = Ending::Cancelled { reason: "replaced".to_owned(), by };
        assert_eq!(ended[n].ending, Some(replaced));
    }
    assert_eq!(ended[3].state, "completed");
}

/// spec B115, G7: the new run waits until the worker of the old run has stopped, also if that
/// worker belonged to an engine that has died.
pub(crate) async fn a_newcomer_waits_for_the_old_worker(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = || work(&journal, "order", secs(100)).singleton(Singleton::cancel());
    let one = sharing(harness).workflow(order()).start().await.unwrap();
    start(&one, "order", json!({ "n": 0 })).await;
    harness.settle().await;
    let two = sharing(harness).workflow(order()).start().await.unwrap();
    start(&two, "order", json!({ "n": 1 })).await;
    assert_eq!(states(harness, "order").await[0], "cancelled", "at once");
    harness.advance(secs(2)).await;
    assert_eq!((journal.take(), journal.most("order")), (vec!["0".into(), "1".into()], 1));
    // The engine that drives the second run crashes. The new run has to wait until its lease has
    // expired.
    let (dead, alive) = if one.driven() == 1 { (one, two) } else { (two, one) };
    harness.crash(&dead).await;
    start(&alive, "order", json!({ "n": 2 })).await;
    harness.advance(secs(20)).await;
    assert_eq!(journal.take(), [""; 0]);
    harness.advance(secs(40)).await;
    assert_eq!(journal.take(), ["2"]);
}

/// spec B111, B53, B58: without a key there is one run per workflow; with a key, one per key value.
pub(crate) async fn keys_are_apart(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let whole = work(&journal, "whole", secs(1)).singleton(Singleton::skip()).on_event("tick");
    let keyed = work(&journal, "keyed", secs(1)).singleton(Singleton::skip().key("user"));
    let keyed = keyed.on_event("tick");
    let engine = harness.engine().workflow(whole).workflow(keyed).start().await.unwrap();
    for user in ["a", "b", "a"] {
        engine.send("tick", json!({ "user": user })).await.unwrap();
    }
    harness.advance(secs(1)).await;
    assert_eq!(states(harness, "whole").await, ["completed"]);
    assert_eq!(states(harness, "keyed").await, ["completed"; 2]);
}

/// spec B113: in both modes, concurrent events on two engines leave one run.
pub(crate) async fn triggers_at_once_leave_one_run(harness: &TestHarness) {
    for (name, mode) in [("skip", Singleton::skip()), ("cancel", Singleton::cancel())] {
        let journal = Journal::new(harness);
        let order = || work(&journal, name, secs(10)).singleton(mode.clone());
        let one = sharing(harness).workflow(order()).start().await.unwrap();
        let two = sharing(harness).workflow(order()).start().await.unwrap();
        for n in 0..5 {
            let (first, second) = tokio::join!(
                one.send(name, json!({ "n": 2 * n })),
                two.send(name, json!({ "n": 2 * n + 1 })),
            );
            first.and(second).unwrap();
        }
        harness.advance(secs(60)).await;
        let ended = states(harness, name).await;
        let completed = ended.iter().filter(|state| **state == "completed").count();
        assert_eq!((completed, journal.most(name)), (1, 1), "{name}: {ended:?}");
        assert_eq!(ended.len(), if name == "skip" { 1 } else { 10 });
    }
}
