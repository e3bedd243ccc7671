//! Debounce: one run when a burst is over, with the data of the last event.

use serde_json::json;
use tidegate::{Debounce, Singleton, testing::TestHarness};

use crate::words::{Journal, burst, ms, secs, sharing, start, states, verdict, work};

/// spec F1, B85, B86, B87: each event postpones the deadline. One run starts, with the data of the
/// last event.
pub(crate) async fn a_burst_gives_one_run_with_the_last_event(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = work(&journal, "order", ms(0)).debounce(Debounce::quiet(secs(10)));
    let engine = harness.engine().workflow(order).start().await.unwrap();
    let mut runs = Vec::new();
    for n in 0..5 {
        let answer = verdict(&engine, "order", json!({ "n": n })).await;
        assert_eq!(answer.outcome(), "coalesced");
        runs.extend(answer.run());
        harness.advance(secs(9)).await;
    }
    assert!(
        runs.iter().all(|run| *run == runs[0]),
        "all events of the window must get the same run id"
    );
    assert_eq!(states(harness, "order").await.len(), 0);
    // A caller can wait for the run before it exists.
    let (answer, ()) = tokio::join!(engine.ended(runs[0]), harness.advance(secs(60)));
    assert_eq!(answer.unwrap().id, runs[0]);
    assert_eq!(journal.take_times(), [(46_000, "4".to_owned())]);
    assert_eq!(harness.runs("order").await.len(), 1);
}

/// spec B88, B53: each key value has a window of its own.
pub(crate) async fn keys_debounce_apart(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = work(&journal, "order", ms(0)).debounce(Debounce::quiet(secs(10)).key("user"));
    let engine = harness.engine().workflow(order).start().await.unwrap();
    for (n, user) in ["a", "b", "a"].into_iter().enumerate() {
        start(&engine, "order", json!({ "n": n, "user": user })).await;
        harness.advance(secs(4)).await;
    }
    harness.advance(secs(60)).await;
    assert_eq!(journal.take_times(), [(14_000, "1".to_owned()), (18_000, "2".to_owned())]);
}

/// spec F1, B89, N29: after a window has fired, a new one opens. With a steady stream of events,
/// windows fire at their maximum wait.
pub(crate) async fn a_steady_stream_fires_now_and_then(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let quiet = Debounce::quiet(secs(10)).at_most(secs(30));
    let order = work(&journal, "order", ms(0)).debounce(quiet);
    let engine = harness.engine().workflow(order).start().await.unwrap();
    for n in 0..9 {
        start(&engine, "order", json!({ "n": n })).await;
        harness.advance(secs(8)).await;
    }
    harness.advance(secs(60)).await;
    let expected = [(30_000, "3"), (62_000, "7"), (74_000, "8")];
    assert_eq!(journal.take_times(), expected.map(|(at, n)| (at, n.to_owned())));
}

/// spec F3, B90: an open window survives a restart of all engines, and fires once, not before its
/// deadline.
pub(crate) async fn a_window_survives_a_restart(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = || work(&journal, "order", ms(0)).debounce(Debounce::quiet(secs(10)));
    for (down, fired) in [(5, 10), (100, 100)] {
        let began = harness.timer().elapsed();
        let engine = harness.engine().workflow(order()).start().await.unwrap();
        burst(&engine, "order", 3).await;
        harness.settle().await;
        harness.crash(&engine).await;
        harness.advance(secs(down)).await;
        let engine = harness.engine().workflow(order()).start().await.unwrap();
        harness.advance(secs(60)).await;
        let expected = (began + secs(fired)).as_millis();
        assert_eq!(journal.take_times(), [(expected, "2".to_owned())]);
        harness.crash(&engine).await;
    }
}

/// spec F1: an event after the deadline opens a new window, even if the old window fires late.
pub(crate) async fn a_late_fire_takes_no_later_event(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = || work(&journal, "order", ms(0)).debounce(Debounce::quiet(secs(10)));
    let engine = harness.engine().workflow(order()).start().await.unwrap();
    start(&engine, "order", json!({ "n": 0 })).await;
    harness.settle().await;
    harness.crash(&engine).await;
    harness.advance(secs(60)).await;
    let engine = harness.engine().workflow(order()).start().await.unwrap();
    start(&engine, "order", json!({ "n": 1 })).await;
    harness.advance(secs(60)).await;
    assert_eq!(journal.take_times(), [(60_000, "0".to_owned()), (70_000, "1".to_owned())]);
}

/// spec B91: one run starts, however many engines notice the deadline.
pub(crate) async fn one_run_however_many_engines_see_the_deadline(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = || work(&journal, "order", ms(0)).debounce(Debounce::quiet(secs(10)));
    let one = sharing(harness).workflow(order()).start().await.unwrap();
    let two = sharing(harness).workflow(order()).start().await.unwrap();
    for n in 0..6 {
        start(if n % 2 == 0 { &one } else { &two }, "order", json!({ "n": n })).await;
    }
    harness.advance(secs(60)).await;
    assert_eq!(journal.take(), ["5"]);
}

/// spec F4: a window that a singleton blocks takes more events until the holder ends, and fires
/// then.
pub(crate) async fn a_held_window_keeps_folding(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let quiet = Debounce::quiet(secs(1));
    let order = work(&journal, "order", secs(10)).debounce(quiet).singleton(Singleton::skip());
    let engine = harness.engine().workflow(order).start().await.unwrap();
    for n in 0..8 {
        start(&engine, "order", json!({ "n": n })).await;
        harness.advance(secs(2)).await;
    }
    harness.advance(secs(60)).await;
    let expected = [(1000, "0"), (11_000, "5"), (21_000, "7")];
    assert_eq!(journal.take_times(), expected.map(|(at, n)| (at, n.to_owned())));
}
