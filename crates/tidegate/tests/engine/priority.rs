//! Priority: gives runs an earlier position in the queue, by a limited time shift.

use serde_json::json;
use tidegate::{Concurrency, Priority, Rate, testing::TestHarness};
use tidegate_core::definition::DEFAULT_APP;

use crate::words::{Journal, ms, secs, start, work};

/// spec P1, P2, B102, B103, B105: a run with a shift overtakes only runs of its workflow that
/// arrived less than the shift before it. Runs with a shift keep their order among themselves.
pub(crate) async fn a_shift_is_a_bounded_jump(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let plain = work(&journal, "job", secs(1)).version(1);
    let urgent = work(&journal, "job", secs(1)).version(2).priority(Priority::shift(secs(10)));
    let engine =
        harness.engine().workers(1).workflow(plain).workflow(urgent).start().await.unwrap();
    let send = async |kind: &str, data| {
        let version = if kind == "urgent" { 2 } else { 1 };
        engine.release(DEFAULT_APP, "job", version).await.unwrap();
        start(&engine, "job", data).await
    };
    for n in 0..8 {
        send("plain", json!({ "n": n })).await;
    }
    harness.advance(ms(500)).await;
    send("plain", json!({ "n": "late" })).await;
    harness.advance(secs(2)).await;
    for n in 0..2 {
        send("urgent", json!({ "n": format!("u{n}") })).await;
    }
    harness.advance(secs(20)).await;
    let order = ["0", "1", "2", "\"u0\"", "\"u1\"", "3", "4", "5", "6", "7", "\"late\""];
    assert_eq!(journal.take(), order);

    // These runs arrived earlier by more than the shift, so they go first.
    for n in 0..15 {
        send("plain", json!({ "n": n })).await;
    }
    harness.advance(ms(10_500)).await;
    send("urgent", json!({ "n": "u" })).await;
    send("plain", json!({ "n": "late" })).await;
    harness.advance(secs(20)).await;
    let noted = journal.take();
    assert_eq!(noted[14..], ["14", "\"u\"", "\"late\""]);
}

/// spec P1, B104: priority exceeds neither a concurrency limit nor the rate of a throttle.
pub(crate) async fn priority_breaks_no_limit(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = work(&journal, "order", secs(1)).concurrency(Concurrency::limit(2));
    let order = order.priority(Priority::shift(secs(60)));
    let mail = work(&journal, "mail", ms(0)).throttle(Rate::per_second(1));
    let mail = mail.priority(Priority::shift(secs(60)));
    let engine = harness.engine().workflow(order).workflow(mail).start().await.unwrap();
    for n in 0..6 {
        start(&engine, "order", json!({ "n": n })).await;
    }
    harness.advance(secs(10)).await;
    assert_eq!(journal.most("order"), 2);
    assert_eq!(journal.take(), ["0", "1", "2", "3", "4", "5"]);
    for n in 0..3 {
        start(&engine, "mail", json!({ "n": n })).await;
    }
    harness.advance(secs(10)).await;
    assert_eq!(journal.take_moments(), [10_000, 11_000, 12_000]);
}
