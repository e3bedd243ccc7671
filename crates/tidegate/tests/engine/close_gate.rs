//! Steps that close a gate, because a service has refused their call.

use serde_json::{Value, json};
use tidegate::{
    Concurrency, Ctx, GateToClose, Pool, Retry, StepError, Workflow, testing::TestHarness,
};

use crate::words::{Journal, burst, failed, n, secs, start, state};

/// A workflow that passes the pool `api`. The first `refusals` calls of all its runs close the pool
/// for `seconds`; the others take one second.
fn caller(journal: &Journal, refusals: usize, seconds: u64) -> Workflow<Value, Value> {
    let journal = journal.clone();
    let calls = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let chat = Workflow::new("chat", move |ctx: Ctx, input: Value| {
        let (journal, calls) = (journal.clone(), calls.clone());
        async move {
            let attempt = ctx.attempt("ask");
            let ask = ctx.step("ask", || async {
                journal.note(format!("{} attempt {attempt}", n(&input)));
                if calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < refusals {
                    return Err(ctx.close_gate("api", secs(seconds)));
                }
                journal.spend(secs(1)).await;
                Ok(())
            });
            ask.retry(Retry::attempts(2).fixed(secs(3))).await?;
            Ok(input)
        }
    });
    chat.concurrency(Concurrency::pool("api"))
}

/// spec L27: the run whose step closes a gate repeats the step at the end of the closing, as the
/// same attempt; until then no other run enters.
pub(crate) async fn a_step_closes_the_gate_for_the_other_runs(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let pool = Pool::new("api").concurrency(1);
    let engine = harness.engine().pool(pool).workflow(caller(&journal, 2, 10));
    let engine = engine.start().await.unwrap();
    let first = start(&engine, "chat", json!({ "n": 0 })).await;
    harness.settle().await;
    assert_eq!(journal.take_times(), [(0, "0 attempt 1".to_owned())]);
    burst(&engine, "chat", 2).await;
    harness.advance(secs(9)).await;
    assert_eq!(journal.take(), [""; 0], "a run has entered the closed gate");
    assert_eq!(state(harness, "chat", first).await, "waiting");
    harness.advance(secs(1)).await;
    // One run enters and is refused, too.
    let second = journal.take_times();
    assert!(matches!(&*second, [(10_000, line)] if line.ends_with(" attempt 1")), "{second:?}");
    harness.advance(secs(14)).await;
    let lines = journal.take_times();
    let at: Vec<u128> = lines.iter().map(|(at, _)| *at).collect();
    assert_eq!(at, [20_000, 21_000, 22_000], "{lines:?}");
    assert!(lines.iter().all(|(_, line)| line.ends_with(" attempt 1")), "{lines:?}");
    let runs = harness.runs("chat").await;
    assert!(runs.iter().all(|run| run.state == "completed"), "{runs:?}");
}

/// spec L27: after a hundred attempts of a step that have closed a gate, further ones count as
/// failed, and `retry` decides about the next one.
pub(crate) async fn a_step_that_is_always_refused_fails_at_last(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let pool = Pool::new("api").concurrency(1);
    let engine = harness.engine().pool(pool).workflow(caller(&journal, usize::MAX, 1));
    let engine = engine.start().await.unwrap();
    let run = start(&engine, "chat", json!({ "n": 0 })).await;
    harness.advance(secs(99)).await;
    let lines = journal.take_times();
    assert_eq!((lines.len(), lines.last().map(|it| it.0)), (100, Some(99_000)));
    assert!(lines.iter().all(|(_, line)| line == "0 attempt 1"), "{lines:?}");
    harness.advance(secs(1)).await;
    assert_eq!(journal.take_times(), [(100_000, "0 attempt 1".to_owned())]);
    harness.advance(secs(10)).await;
    assert_eq!(journal.take(), ["0 attempt 2"], "a counted attempt is repeated by `retry`");
    let error = failed(&engine, run).await;
    assert_eq!(error.code(), "TooManyCalls");
    assert_eq!(error.message(), "too many calls: it closes `pool:api`");
}

/// spec L27: a run closes only gates that it passes. The error names the gate, and is final; an
/// error that the handler has marked itself is retried by its policy instead.
pub(crate) async fn a_gate_that_the_run_does_not_pass_is_an_error(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let noted = journal.clone();
    let plain = Workflow::new("plain", move |ctx: Ctx, how: String| {
        let journal = noted.clone();
        async move {
            let ask = ctx.step("ask", || async {
                journal.note(&how);
                match how.as_str() {
                    "pool" => Err(ctx.close_gate("api", secs(10))),
                    "throttle" => Err(ctx.close_gate(GateToClose::Throttle, secs(10))),
                    "concurrency" => Err(ctx.close_gate(GateToClose::Concurrency, secs(10))),
                    _ => Err::<(), _>(StepError::coded("Busy", "busy").close_gate("api", secs(10))),
                }
            });
            ask.retry(Retry::attempts(2).fixed(secs(1))).await
        }
    });
    let pool = Pool::new("api").concurrency(1);
    let engine = harness.engine().pool(pool).workflow(plain).start().await.unwrap();
    for (how, code, message, calls) in [
        (
            "pool",
            "NoGate",
            "no gate to close: workflow `plain` uses no throttle and no concurrency of pool `api`: \
             add `{\"pool\": \"api\"}` to one of them",
            1,
        ),
        (
            "throttle",
            "NoGate",
            "no gate to close: workflow `plain` has no `throttle` of its own",
            1,
        ),
        (
            "concurrency",
            "NoGate",
            "no gate to close: workflow `plain` has no `concurrency` limit of its own",
            1,
        ),
        ("marked", "Busy", "busy", 2),
    ] {
        let run = start(&engine, "plain", json!(how)).await;
        harness.advance(secs(2)).await;
        let error = failed(&engine, run).await;
        assert_eq!((error.code(), error.message()), (code, message));
        assert_eq!(journal.take().len(), calls, "{how}");
    }
}
