//! Throttle: starts are spread over time, and no run is lost.

use serde_json::{Value, json};
use tidegate::{Concurrency, Ctx, Rate, Retry, StepError, Workflow, testing::TestHarness};
use tidegate_core::flow::Verdict;

use crate::words::{Journal, burst, ms, secs, sharing, start, states, verdict, work};

/// spec M1, B71, B72, B73: all runs of a burst start one by one, at equal intervals and in order.
pub(crate) async fn a_burst_is_spread_out(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = work(&journal, "order", ms(0)).throttle(Rate::per_second(2));
    let engine = harness.engine().workflow(order).start().await.unwrap();
    burst(&engine, "order", 6).await;
    harness.advance(secs(60)).await;
    let expected: Vec<_> = (0..6_u64).map(|n| (u128::from(n * 500), n.to_string())).collect();
    assert_eq!(journal.take_times(), expected);
    assert_eq!(states(harness, "order").await, ["completed"; 6]);
}

/// spec M1: as many runs as the burst allows start at once, and again after a time without starts.
pub(crate) async fn as_many_as_the_burst_start_at_once(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = work(&journal, "order", ms(0)).throttle(Rate::per_second(1).burst(3));
    let engine = harness.engine().workflow(order).start().await.unwrap();
    for _ in 0..2 {
        let began = harness.timer().elapsed().as_millis();
        burst(&engine, "order", 5).await;
        harness.advance(secs(60)).await;
        let started: Vec<_> = journal.take_moments().iter().map(|at| at - began).collect();
        assert_eq!(started, [0, 0, 0, 1000, 2000]);
    }
}

/// spec B74: each key value has a rate of its own. The verdict has the approximate start time.
pub(crate) async fn every_key_has_its_own_rate(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = work(&journal, "order", ms(0)).throttle(Rate::per_second(1).key("to"));
    let engine = harness.engine().workflow(order).start().await.unwrap();
    start(&engine, "order", json!({ "n": 0, "to": "a" })).await;
    harness.settle().await;
    let second = verdict(&engine, "order", json!({ "n": 1, "to": "a" })).await;
    let due = harness.now().plus_ms(1000);
    assert!(
        matches!(&second, Verdict::Queued { by, start_at, .. }
            if by.control == "throttle" && by.key == "a" && *start_at == Some(due)),
        "{second:?}"
    );
    for (n, to) in [(2, "b"), (3, "b"), (4, "a")] {
        start(&engine, "order", json!({ "n": n, "to": to })).await;
    }
    harness.advance(secs(2)).await;
    let noted = journal.take_times();
    let expected = [(0, "0"), (0, "2"), (1000, "1"), (1000, "3"), (2000, "4")];
    assert_eq!(noted, expected.map(|(at, n)| (at, n.to_owned())));
}

/// spec M1, B75: after an outage, starts keep their interval.
pub(crate) async fn after_an_outage_the_spacing_holds(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = || work(&journal, "order", ms(0)).throttle(Rate::per_second(1));
    let engine = harness.engine().workflow(order()).start().await.unwrap();
    burst(&engine, "order", 6).await;
    harness.advance(secs(1)).await;
    harness.crash(&engine).await;
    harness.advance(secs(99)).await;
    let _engine = harness.engine().workflow(order()).start().await.unwrap();
    harness.advance(secs(10)).await;
    assert_eq!(journal.take_moments(), [0, 1000, 100_000, 101_000, 102_000, 103_000]);
}

/// spec M1, B75, G9: the interval counts from the start of a run, so runs that waited at a gate
/// keep the interval, too.
pub(crate) async fn behind_a_full_gate_the_spacing_holds(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let throttled = |name: &str, time| work(&journal, name, time).throttle(Rate::per_second(1));
    let order = throttled("order", secs(10)).concurrency(Concurrency::limit(1));
    let engine = harness.engine().workflow(order).start().await.unwrap();
    burst(&engine, "order", 3).await;
    harness.advance(secs(60)).await;
    assert_eq!(journal.take_moments(), [0, 10_000, 20_000]);
}

/// spec M1, A5: a run that wakes or is retried needs no turn of the throttle.
pub(crate) async fn wakes_and_retries_need_no_turn(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let noted = journal.clone();
    let order = Workflow::new("order", move |ctx: Ctx, _: Value| {
        let journal = noted.clone();
        async move {
            journal.note("begin");
            ctx.sleep("nap", ms(10)).await?;
            let attempt = ctx.attempt("pay");
            let pay = ctx.step("pay", || async move {
                if attempt == 1 { Err(StepError::new("busy")) } else { Ok(()) }
            });
            pay.retry(Retry::attempts(2).fixed(ms(10))).await
        }
    })
    .throttle(Rate::per_minute(1));
    let engine = harness.engine().workflow(order).start().await.unwrap();
    burst(&engine, "order", 2).await;
    harness.advance(secs(61)).await;
    assert_eq!(journal.take_moments(), [0, 10, 20, 60_000, 60_010, 60_020]);
}

/// spec B76: a run that is cancelled before its turn never starts, and the next run takes the turn.
pub(crate) async fn what_is_cancelled_before_its_turn_never_starts(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = work(&journal, "order", ms(0)).throttle(Rate::per_second(1));
    let engine = harness.engine().workflow(order).start().await.unwrap();
    let mut runs = Vec::new();
    for n in 0..3 {
        runs.push(start(&engine, "order", json!({ "n": n })).await);
    }
    engine.cancel(runs[1], "not needed").await.unwrap();
    harness.advance(secs(60)).await;
    let noted = journal.take_times();
    assert_eq!(noted, [(0, "0".to_owned()), (1000, "2".to_owned())]);
}

/// spec B84, B131: several engines share one rate.
pub(crate) async fn several_engines_share_the_rate(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = || work(&journal, "order", ms(0)).throttle(Rate::per_second(1).burst(2));
    let one = sharing(harness).workflow(order()).start().await.unwrap();
    let two = sharing(harness).workflow(order()).start().await.unwrap();
    for n in 0..4 {
        start(&one, "order", json!({ "n": 2 * n })).await;
        start(&two, "order", json!({ "n": 2 * n + 1 })).await;
    }
    harness.advance(secs(60)).await;
    let started = journal.take_moments();
    assert_eq!(started.len(), 8);
    for pair in started[1..].windows(2) {
        assert!(pair[1] - pair[0] >= 1000, "{started:?}");
    }
}
