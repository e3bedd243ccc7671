//! Concurrency: at most as many runs execute as there are slots, and a waiting run holds no slot.

use serde_json::{Value, json};
use tidegate::{Concurrency, Ctx, Retry, StepError, Workflow, testing::TestHarness};

use crate::words::{Journal, burst, ms, n, secs, sharing, start, states, work};

/// spec G1, G4, B60, B66, B67: fifty runs with a limit of five: at every instant five execute, in
/// order, and none is lost.
pub(crate) async fn a_burst_of_fifty_is_driven_five_at_a_time(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = work(&journal, "order", secs(1)).concurrency(Concurrency::limit(5));
    let engine = harness.engine().workflow(order).start().await.unwrap();
    burst(&engine, "order", 50).await;
    harness.advance(secs(10)).await;
    assert_eq!(journal.most("order"), 5);
    let expected: Vec<_> = (0..50_u64).map(|n| (u128::from(n / 5 * 1000), n.to_string())).collect();
    assert_eq!(journal.take_times(), expected, "a free slot must be taken at once");
    assert_eq!(states(harness, "order").await, ["completed"; 50]);
}

/// spec G5, B53, B70: a key whose slots are full does not delay other keys.
pub(crate) async fn a_full_key_delays_no_other(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = work(&journal, "order", secs(1)).concurrency(Concurrency::limit(1).key("user.id"));
    let engine = harness.engine().workflow(order).start().await.unwrap();
    for (n, user) in ["a", "a", "a", "b"].into_iter().enumerate() {
        start(&engine, "order", json!({ "n": n, "user": { "id": user } })).await;
    }
    harness.settle().await;
    assert_eq!(journal.take(), ["0", "3"]);
    harness.advance(secs(2)).await;
    assert_eq!(journal.take(), ["1", "2"]);
}

/// spec B54, B55, B56, B57: runs of events without the key share one limit, separate from all runs
/// with a key.
pub(crate) async fn what_lacks_the_key_shares_one_bucket(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = work(&journal, "order", secs(1)).concurrency(Concurrency::limit(1).key("user"));
    let engine = harness.engine().workflow(order).start().await.unwrap();
    let users = [json!(null), json!({ "id": 1 }), json!([1]), json!(1), json!("1"), json!(true)];
    for (n, user) in users.into_iter().enumerate() {
        start(&engine, "order", json!({ "n": n, "user": user })).await;
    }
    harness.settle().await;
    assert_eq!(journal.take(), ["0", "3", "4", "5"]);
    harness.advance(secs(2)).await;
    assert_eq!(journal.take(), ["1", "2"]);
}

/// spec G2, B61, B62, B63, N19: whatever a run waits for, it holds no slot meanwhile.
pub(crate) async fn whatever_a_run_waits_for_it_holds_no_slot(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let noted = journal.clone();
    let order = Workflow::new("order", move |ctx: Ctx, input: Value| {
        let journal = noted.clone();
        async move {
            journal.note(format!("{} {}", input["by"], ctx.attempt("try")));
            match input["by"].as_str().unwrap_or_default() {
                "sleep" => ctx.sleep("wait", secs(10)).await?,
                "event" => {
                    ctx.wait_for_event::<Value>("wait", "paid").timeout(secs(10)).await?;
                }
                "signal" => {
                    ctx.wait_for_signal::<Value>("wait", "go").timeout(secs(10)).await?;
                }
                "child" => drop(ctx.invoke::<_, Value>("wait", "slow", json!({})).await?),
                "retry" => {
                    let attempt = ctx.attempt("try");
                    let step = ctx.step("try", || async move {
                        if attempt == 1 { Err(StepError::new("busy")) } else { Ok(()) }
                    });
                    step.retry(Retry::attempts(2).fixed(secs(10))).await?;
                }
                _ => {}
            }
            Ok(input)
        }
    })
    .concurrency(Concurrency::limit(1));
    let slow = work(&journal, "slow", secs(10));
    let engine = harness.engine().workflow(order).workflow(slow).start().await.unwrap();
    let waits = ["sleep", "event", "signal", "child", "retry"];
    for by in waits {
        start(&engine, "order", json!({ "by": by })).await;
    }
    let last = start(&engine, "order", json!({ "by": "none" })).await;
    harness.settle().await;
    harness.completed(&engine, last).await;
    assert_eq!(states(harness, "order").await[..5], ["waiting"; 5]);
    // The delay before the retry has random jitter.
    harness.advance(secs(11)).await;
    assert_eq!(states(harness, "order").await, ["completed"; 6]);
    let mut noted = journal.take();
    noted.retain(|line| line.starts_with('"'));
    assert_eq!(noted.len(), 11, "each waiting run must start twice: {noted:?}");
}

/// spec G3, G4, B64: a run that wakes while its gate is full is queued by its original rank.
pub(crate) async fn a_run_that_wakes_queues_again_in_its_old_place(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let noted = journal.clone();
    let order = Workflow::new("order", move |ctx: Ctx, input: Value| {
        let journal = noted.clone();
        async move {
            ctx.sleep("nap", ms(input["nap"].as_u64().unwrap_or_default())).await?;
            let work = ctx.step("work", || async {
                journal.work("order", n(&input), secs(10)).await;
                Ok(())
            });
            work.await
        }
    })
    .concurrency(Concurrency::limit(1));
    let engine = harness.engine().workflow(order).start().await.unwrap();
    for (n, nap) in [(0, 5000), (1, 1), (2, 1), (3, 1)] {
        start(&engine, "order", json!({ "n": n, "nap": nap })).await;
    }
    harness.advance(secs(50)).await;
    let expected = [(1, "1"), (10_001, "0"), (20_001, "2"), (30_001, "3")];
    assert_eq!(journal.take_times(), expected.map(|(at, n)| (at, n.to_owned())));
    assert_eq!(journal.most("order"), 1);
}

/// spec G7, B12, B69: however a run ends, the next one starts at that moment.
pub(crate) async fn however_a_run_ends_the_next_one_starts(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let noted = journal.clone();
    let order = Workflow::new("order", move |ctx: Ctx, input: Value| {
        let journal = noted.clone();
        async move {
            let end = input["end"].as_str().unwrap_or_default().to_owned();
            let step = ctx.step("work", || async {
                journal.work("order", &end, secs(1)).await;
                match end.as_str() {
                    "fail" => Err(StepError::new("no").fatal()),
                    "panic" => panic!("a bug of the user"),
                    "stuck" => std::future::pending().await,
                    _ => Ok(()),
                }
            });
            step.retry(Retry::attempts(1)).await
        }
    })
    .concurrency(Concurrency::limit(1))
    .retry(Retry::attempts(1));
    let engine = harness.engine().workflow(order).start().await.unwrap();
    let mut runs = Vec::new();
    for end in ["complete", "fail", "panic", "stuck", "last"] {
        runs.push(start(&engine, "order", json!({ "end": end })).await);
    }
    harness.advance(secs(60)).await;
    engine.cancel(runs[3], "by hand").await.unwrap();
    harness.settle().await;
    let begun = journal.take_times();
    let expected =
        [(0, "complete"), (1000, "fail"), (2000, "panic"), (3000, "stuck"), (60_000, "last")];
    assert_eq!(begun, expected.map(|(at, end)| (at, end.to_owned())));
    assert_eq!(journal.most("order"), 1);
    harness.advance(secs(1)).await;
    let ended = ["completed", "failed", "failed", "cancelled", "completed"];
    assert_eq!(states(harness, "order").await, ended);
}

/// spec B65, B131: the limit holds across all engines.
pub(crate) async fn two_engines_share_the_limit(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = || work(&journal, "order", secs(1)).concurrency(Concurrency::limit(3));
    let one = sharing(harness).workers(2).workflow(order()).start().await.unwrap();
    let two = sharing(harness).workers(2).workflow(order()).start().await.unwrap();
    for n in 0..10 {
        start(&one, "order", json!({ "n": 2 * n })).await;
        start(&two, "order", json!({ "n": 2 * n + 1 })).await;
    }
    harness.settle().await;
    assert_eq!((journal.inside("order"), one.driven() + two.driven()), (3, 3));
    harness.advance(secs(60)).await;
    assert_eq!(journal.most("order"), 3);
    assert_eq!(states(harness, "order").await, ["completed"; 20]);
}

/// spec G6, B68, B168: slots that a dead engine's runs hold become free when its lease has expired,
/// not earlier.
pub(crate) async fn a_dead_engines_slot_comes_back_with_its_lease(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = || work(&journal, "order", secs(100)).concurrency(Concurrency::limit(1));
    let one = sharing(harness).workflow(order()).start().await.unwrap();
    start(&one, "order", json!({ "n": 0 })).await;
    let two = sharing(harness).workflow(order()).start().await.unwrap();
    start(&two, "order", json!({ "n": 1 })).await;
    harness.advance(secs(45)).await;
    assert_eq!(journal.take(), ["0"], "a run of a live engine may take longer than the lease");
    // The last heartbeat was at 40 s.
    harness.crash(&one).await;
    harness.advance(ms(24_999)).await;
    assert_eq!(
        journal.take(),
        [""; 0],
        "no run may start before the dead engine's lease has expired"
    );
    harness.advance(secs(20)).await;
    assert_eq!(journal.take(), ["0"], "the run of the dead engine must continue first");
    harness.advance(secs(200)).await;
    assert_eq!(journal.take(), ["1"]);
    assert_eq!((journal.most("order"), states(harness, "order").await), (1, vec!["completed"; 2]));
}

/// spec B51, G9: several limits hold at once.
pub(crate) async fn several_limits_hold_at_once(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let noted = journal.clone();
    let order = Workflow::new("order", move |_: Ctx, input: Value| {
        let journal = noted.clone();
        async move {
            let key = input["key"].to_string();
            tokio::join!(
                journal.work("order", n(&input), secs(1)),
                journal.work(&key, n(&input), secs(1)),
            );
            Ok(())
        }
    })
    .concurrency(Concurrency::limit(3))
    .concurrency(Concurrency::limit(2).key("key"));
    let engine = harness.engine().workflow(order).start().await.unwrap();
    for n in 0..20 {
        start(&engine, "order", json!({ "n": n, "key": n % 3 })).await;
    }
    harness.advance(secs(20)).await;
    assert_eq!(journal.most("order"), 3);
    assert!(["0", "1", "2"].iter().all(|key| journal.most(key) <= 2));
    assert_eq!(states(harness, "order").await, ["completed"; 20]);
}

/// spec controls: with the span `run`, a run counts against the limit until it ends, also while it
/// sleeps.
pub(crate) async fn with_the_span_run_a_sleeping_run_counts(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let noted = journal.clone();
    let order = Workflow::new("order", move |ctx: Ctx, input: Value| {
        let journal = noted.clone();
        async move {
            ctx.step("note", || async {
                journal.note(n(&input));
                Ok(())
            })
            .await?;
            ctx.sleep("nap", secs(10)).await
        }
    })
    .concurrency(Concurrency::limit(2).for_the_whole_run());
    let engine = harness.engine().workflow(order).start().await.unwrap();
    burst(&engine, "order", 5).await;
    harness.advance(secs(30)).await;
    assert_eq!(journal.take_moments(), [0, 0, 10_000, 10_000, 20_000]);
}
