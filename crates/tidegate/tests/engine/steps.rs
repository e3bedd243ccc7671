//! Steps: recorded and retried. A recorded step is never executed again.

use std::{future::pending, time::Duration};

use serde_json::{Value, json};
use tidegate::{Ctx, Retry, StepError, StepResultExt, Workflow, testing::TestHarness};

use crate::words::{Door, Journal, Marks, failed, recorded_steps, start, state};

/// spec steps, B162: a replay of the handler returns the recorded results and executes no recorded
/// step.
pub(crate) async fn completed_steps_are_not_run_again(harness: &TestHarness) {
    let marks = Marks::default();
    let effects = marks.clone();
    let order = Workflow::new("order", move |ctx: Ctx, input: Value| {
        let effects = effects.clone();
        async move {
            let effect = || async { Ok(effects.mark("effect")) };
            let first = ctx.step("first", effect).await?;
            ctx.sleep("nap", Duration::from_mins(1)).await?;
            let second = ctx.step("second", effect).await?;
            Ok(json!([first, second, input["n"]]))
        }
    });
    let engine = harness.engine().workflow(order).start().await.unwrap();
    let run = start(&engine, "order", json!({ "n": 7 })).await;
    harness.advance(Duration::from_secs(59)).await;
    assert_eq!(harness.runs("order").await[0].state, "waiting");
    harness.advance(Duration::from_secs(1)).await;
    assert_eq!(harness.completed(&engine, run).await, json!([1, 2, 7]));
    assert_eq!(marks.count("effect"), 2);
}

/// spec N20, N21: the retry policy sets the total number of attempts, and the delay before each.
pub(crate) async fn a_failing_step_is_tried_as_often_as_it_may(harness: &TestHarness) {
    let order = Workflow::new("order", |ctx: Ctx, input: Value| async move {
        let (attempt, good) = (ctx.attempt("pay"), input["good"].as_u64().unwrap_or(99));
        let pay = ctx.step("pay", || async move {
            if u64::from(attempt) < good { Err(StepError::new("declined")) } else { Ok(attempt) }
        });
        pay.retry(Retry::attempts(3).fixed(Duration::from_secs(1))).await
    });
    let engine = harness.engine().workflow(order).start().await.unwrap();
    let third = start(&engine, "order", json!({ "good": 3 })).await;
    let never = start(&engine, "order", json!({})).await;
    harness.advance(Duration::from_millis(1_999)).await;
    assert!(harness.runs("order").await.iter().all(|run| run.state == "waiting"));
    harness.advance(Duration::from_secs(1)).await;
    assert_eq!(harness.completed(&engine, third).await, json!(3));
    assert_eq!(failed(&engine, never).await.message(), "declined");
}

/// spec N20: the backoff doubles up to its maximum. An error may set its own delay, or prevent a
/// retry. An attempt that exceeds its timeout counts as a failure.
pub(crate) async fn a_failure_says_when_and_whether_to_try_again(harness: &TestHarness) {
    let marks = Marks::default();
    let tries = marks.clone();
    let job = Workflow::new("job", move |ctx: Ctx, how: String| {
        let (tries, again) = (tries.clone(), how.clone());
        async move {
            let step = ctx.step("step", || async move {
                tries.mark(&*again);
                match again.as_str() {
                    "later" => Err(StepError::new("busy")).retry_after(Duration::from_secs(100)),
                    "final" => Err(StepError::coded("NoMoney", "declined")).fatal(),
                    "slow" => pending().await,
                    _ => Err(StepError::new("flaky")),
                }
            });
            let (second, four) = (Duration::from_secs(1), Duration::from_secs(4));
            let step =
                step.retry(Retry { jitter: false, ..Retry::attempts(5).exponential(second, four) });
            let step = if how == "slow" { step.timeout(Duration::from_secs(10)) } else { step };
            step.await.map(|()| Value::Null)
        }
    });
    let engine = harness.engine().workflow(job).start().await.unwrap();
    let mut runs = Vec::new();
    for how in ["grows", "later", "final", "slow"] {
        runs.push(start(&engine, "job", json!(how)).await);
    }
    let mut seen = Vec::new();
    for _ in 0..12 {
        seen.push(marks.count("grows"));
        harness.advance(Duration::from_secs(1)).await;
    }
    // Attempts at 0, 1, 3, 7 and 11 seconds: the delays are 1, 2, 4 and again 4 seconds.
    assert_eq!(seen, [1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5]);
    assert_eq!(failed(&engine, runs[0]).await.message(), "flaky");
    assert_eq!(failed(&engine, runs[2]).await.code(), "NoMoney");
    assert_eq!((marks.count("final"), marks.count("later")), (1, 1));
    harness.advance(Duration::from_secs(88)).await;
    assert_eq!(marks.count("later"), 2);
    // Five attempts of ten seconds each, with the same backoff as the first run.
    assert_eq!((marks.count("slow"), failed(&engine, runs[3]).await.code()), (5, "TimedOut"));
    harness.advance(Duration::from_secs(1000)).await;
    assert_eq!(marks.count("later"), 5, "an error with its own delay must get no extra attempt");
    assert_eq!(failed(&engine, runs[1]).await.message(), "busy");
}

/// spec N22, B178, B179: parallel steps are executed once each. A slow step delays neither the
/// record of a parallel step nor the code after that step. After a crash only steps without a
/// record are executed again.
pub(crate) async fn parallel_steps_are_recorded_as_each_finishes(harness: &TestHarness) {
    let (marks, door) = (Marks::default(), Door::closed());
    let both = || {
        let (marks, door) = (marks.clone(), door.clone());
        Workflow::new("both", move |ctx: Ctx, _: Value| {
            let (marks, door) = (marks.clone(), door.clone());
            async move {
                let slow = ctx.step("slow", || async {
                    marks.mark("slow");
                    door.pass().await;
                    Ok(1)
                });
                let fast = async {
                    let fast = ctx.step("fast", || async { Ok(marks.mark("fast")) }).await?;
                    let next = ctx.step("next", || async { Ok(marks.mark("next")) }).await?;
                    Ok::<_, StepError>(fast + next)
                };
                let (slow, fast) = tokio::try_join!(slow.into_future(), fast)?;
                Ok(json!([slow, fast]))
            }
        })
    };
    let ttl = Duration::from_secs(30);
    let engine = || harness.engine().lease_ttl(ttl).workflow(both());
    let first = engine().start().await.unwrap();
    let run = start(&first, "both", json!(null)).await;
    harness.settle().await;
    assert_eq!(recorded_steps(harness, run).await, ["fast", "next"]);
    harness.crash(&first).await;
    let second = engine().start().await.unwrap();
    door.open();
    harness.advance(ttl * 2).await;
    assert_eq!(harness.completed(&second, run).await, json!([1, 2]));
    assert_eq!(marks.all(), ["slow", "fast", "next", "slow"]);
}

/// spec steps, N20: while one branch of the handler sleeps or waits for a retry, the steps of
/// another branch continue.
pub(crate) async fn a_branch_that_waits_does_not_hold_up_another(harness: &TestHarness) {
    let marks = Marks::default();
    let done = marks.clone();
    let both = Workflow::new("both", move |ctx: Ctx, _: Value| {
        let done = done.clone();
        async move {
            let chain = async {
                for n in 0..3 {
                    ctx.step(format!("link {n}"), || async { Ok(done.mark("link")) }).await?;
                    ctx.random(format!("number {n}")).await?;
                }
                Ok::<_, StepError>(())
            };
            let first = ctx.attempt("flaky") == 1;
            let flaky = ctx.step("flaky", || async move {
                if first { Err(StepError::new("not yet")) } else { Ok(()) }
            });
            let flaky = flaky.retry(Retry::attempts(2).fixed(Duration::from_hours(1)));
            let nap = ctx.sleep("nap", Duration::from_hours(2));
            tokio::try_join!(nap, flaky.into_future(), chain)?;
            Ok(Value::Null)
        }
    });
    let engine = harness.engine().workflow(both).start().await.unwrap();
    let run = start(&engine, "both", json!(null)).await;
    harness.settle().await;
    assert_eq!(marks.count("link"), 3);
    assert_eq!(state(harness, "both", run).await, "waiting");
    harness.advance(Duration::from_hours(2)).await;
    harness.completed(&engine, run).await;
    assert_eq!(marks.count("link"), 3);
}

/// spec steps, N20: a panic fails only its own step or run.
pub(crate) async fn a_panic_is_a_failure_like_others(harness: &TestHarness) {
    let job = Workflow::new("job", |ctx: Ctx, place: String| async move {
        let in_step = ctx.attempt("step") == 1 && place == "step";
        let step = ctx.step("step", || async move {
            assert!(!in_step, "the step slipped");
            Ok(())
        });
        step.await?;
        let in_destructor = if place == "destructor" { Some(Slippery) } else { None };
        if place == "destructor" {
            ctx.sleep("nap", Duration::from_secs(1)).await?;
        }
        assert!(place != "handler", "the handler slipped");
        drop(in_destructor);
        Ok(place)
    });
    let job = job.retry(Retry::attempts(2).fixed(Duration::from_secs(1)));
    let engine = harness.engine().workers(1).workflow(job).start().await.unwrap();
    let dropped = start(&engine, "job", json!("destructor")).await;
    let step = start(&engine, "job", json!("step")).await;
    let handler = start(&engine, "job", json!("handler")).await;
    harness.advance(Duration::from_secs(10)).await;
    let fine = start(&engine, "job", json!("fine")).await;
    harness.settle().await;
    assert_eq!(harness.completed(&engine, step).await, json!("step"));
    assert_eq!(harness.completed(&engine, fine).await, json!("fine"));
    let fault = failed(&engine, handler).await;
    assert_eq!((fault.code(), fault.message()), ("Panicked", "the handler slipped"));
    assert_eq!(
        state(harness, "job", dropped).await,
        "running",
        "the run must stay leased until the engine finds that no task drives it"
    );
}

/// Value that panics when it is dropped.
struct Slippery;

impl Drop for Slippery {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "the destructor slipped");
    }
}

/// spec steps, N20: a failure of the handler outside of its steps is retried by the workflow's
/// retry policy. Recorded steps are not executed again.
pub(crate) async fn a_handler_that_fails_is_tried_again(harness: &TestHarness) {
    let marks = Marks::default();
    let seen = marks.clone();
    let job = Workflow::new("job", move |ctx: Ctx, last: bool| {
        let seen = seen.clone();
        async move {
            ctx.step("step", || async { Ok(seen.mark("step")) }).await?;
            match seen.mark("handler") {
                _ if last => Err(StepError::new("no use").fatal()),
                3 => Ok("at last"),
                _ => Err(StepError::new("not yet")),
            }
        }
    });
    let job = job.retry(Retry::attempts(3).fixed(Duration::from_secs(10)));
    let engine = harness.engine().workflow(job).start().await.unwrap();
    let run = start(&engine, "job", json!(false)).await;
    harness.advance(Duration::from_secs(9)).await;
    assert_eq!(marks.all(), ["step", "handler"]);
    harness.advance(Duration::from_secs(30)).await;
    assert_eq!(harness.completed(&engine, run).await, json!("at last"));
    assert_eq!(marks.all(), ["step", "handler", "handler", "handler"]);
    let last = start(&engine, "job", json!(true)).await;
    harness.settle().await;
    assert_eq!(failed(&engine, last).await.message(), "no use");
    assert_eq!(marks.count("handler"), 4);
}

/// spec N54: a step id that is used twice fails the run, even if the handler ignores the error.
pub(crate) async fn a_duplicate_id_fails_the_run(harness: &TestHarness) {
    let job = Workflow::new("job", |ctx: Ctx, _: Value| async move {
        ctx.step("pay", || async { Ok(()) }).await?;
        // The handler ignores the error.
        drop(ctx.sleep("pay", Duration::from_secs(1)).await);
        Ok(())
    });
    let engine = harness.engine().workflow(job).start().await.unwrap();
    let run = start(&engine, "job", json!(null)).await;
    harness.settle().await;
    let fault = failed(&engine, run).await;
    assert_eq!(fault.code(), "DuplicateStep");
    assert!(fault.message().contains("`pay` (a sleep)"), "{fault}");
    assert!(fault.message().contains("a step"), "{fault}");
}

/// spec N54: changed code is detected before its effects. Either a step has another kind, or the
/// code no longer requests a recorded step. The error names both the old and the new id.
pub(crate) async fn changed_code_is_noticed(harness: &TestHarness) {
    let marks = Marks::default();
    let code = |new: bool| {
        let marks = marks.clone();
        Workflow::new("job", move |ctx: Ctx, kind: bool| {
            let marks = marks.clone();
            async move {
                let effect = || async {
                    marks.mark("effect");
                    Ok(())
                };
                match (new, kind) {
                    (false, _) => ctx.step("old", effect).await?,
                    (true, true) => ctx.sleep("old", Duration::from_secs(1)).await?,
                    (true, false) => ctx.step("new", effect).await?,
                }
                ctx.sleep("nap", Duration::from_mins(1)).await
            }
        })
    };
    let before = harness.engine().workflow(code(false)).start().await.unwrap();
    let kind = start(&before, "job", json!(true)).await;
    let gone = start(&before, "job", json!(false)).await;
    harness.settle().await;
    before.shutdown().await;
    let after = harness.engine().workflow(code(true)).start().await.unwrap();
    harness.advance(Duration::from_mins(1)).await;
    let fault = failed(&after, kind).await;
    assert_eq!(fault.code(), "ChangedWorkflow");
    assert!(fault.message().contains("`old` is recorded as a step, but requested as a sleep"));
    let fault = failed(&after, gone).await;
    assert_eq!(fault.code(), "ChangedWorkflow");
    assert!(fault.message().contains("`old` is recorded, but no longer requested"), "{fault}");
    assert!(fault.message().contains("the code requests `new` (a step) instead"), "{fault}");
    assert_eq!(
        marks.count("effect"),
        2,
        "the effect must be executed once in each run, before the change"
    );
}

/// A value that is not equal after it was written as JSON and read back.
#[derive(serde::Serialize, serde::Deserialize, Debug, Default, PartialEq)]
struct Lopsided {
    kept: u32,
    #[serde(skip)]
    lost: u32,
}

/// spec N55: the size of values is limited, and they are checked. The first execution returns the
/// same value as every replay.
pub(crate) async fn values_are_what_can_be_recorded(harness: &TestHarness) {
    let job = Workflow::new("job", |ctx: Ctx, kind: String| async move {
        match kind.as_str() {
            "large" => drop(ctx.step("big", || async { Ok("x".repeat(5 << 20)) }).await?),
            "keys" => {
                let keys = || async { Ok(std::collections::BTreeMap::from([((1, 2), 3)])) };
                ctx.step("keys", keys).await?;
            }
            "lopsided" => {
                let value = || async { Ok(Lopsided { kept: 1, lost: 2 }) };
                assert_eq!(ctx.step("half", value).await?, Lopsided { kept: 1, lost: 0 });
            }
            "many" => {
                for n in 0..10_001 {
                    ctx.random(format!("{n}")).await?;
                }
            }
            "id" => drop(ctx.random("x".repeat(257)).await?),
            "nul" => drop(ctx.random("a\0b").await?),
            _ => return Ok("y".repeat(5 << 20)),
        }
        Ok(kind)
    });
    let engine = harness.engine().workflow(job).start().await.unwrap();
    for (kind, code) in [
        ("large", "ValueTooLarge"),
        ("keys", "BadOutput"),
        ("many", "TooManySteps"),
        ("id", "BadStep"),
        ("nul", "BadStep"),
        ("output", "ValueTooLarge"),
    ] {
        let run = start(&engine, "job", json!(kind)).await;
        harness.settle().await;
        assert_eq!(failed(&engine, run).await.code(), code, "{kind}");
    }
    let half = start(&engine, "job", json!("lopsided")).await;
    let wrong = start(&engine, "job", json!({ "not": "text" })).await;
    harness.settle().await;
    harness.completed(&engine, half).await;
    let fault = failed(&engine, wrong).await;
    assert_eq!(fault.code(), "BadInput");
    assert!(fault.message().contains("`job` cannot be read as alloc::string::String"), "{fault}");
}

/// spec steps: thousands of steps that finish at the same time are recorded, in as many reports as
/// needed.
pub(crate) async fn many_steps_at_once_are_recorded(harness: &TestHarness) {
    let job = Workflow::new("job", |ctx: Ctx, _: Value| async move {
        let mut all = Vec::new();
        for n in 0..5_000 {
            all.push(ctx.random(format!("{n}")).await?);
        }
        ctx.sleep("nap", Duration::from_secs(1)).await?;
        Ok(ctx.random("0 again").await? == all[0])
    });
    let engine = harness.engine().workflow(job).start().await.unwrap();
    let run = start(&engine, "job", json!(null)).await;
    harness.settle().await;
    assert_eq!(state(harness, "job", run).await, "waiting");
    assert_eq!(recorded_steps(harness, run).await.len(), 5_000);
    harness.advance(Duration::from_secs(1)).await;
    assert_eq!(harness.completed(&engine, run).await, json!(false));
}

/// spec B180: a step's idempotency key, and recorded times and random numbers, are the same on
/// every attempt, replay and engine.
pub(crate) async fn time_chance_and_keys_are_stable(harness: &TestHarness) {
    let marks = Marks::default();
    let job = || {
        let marks = marks.clone();
        Workflow::new("job", move |ctx: Ctx, _: Value| {
            let marks = marks.clone();
            async move {
                let (now, chance) = (ctx.now("now").await?, ctx.random("chance").await?);
                marks.mark(format!("{now} {chance}"));
                let key = ctx.idempotency_key("pay");
                let attempt = ctx.attempt("pay");
                let pay = ctx.step("pay", || async {
                    marks.mark(&key);
                    if attempt < 3 { Err(StepError::new("declined")) } else { Ok(()) }
                });
                pay.await?;
                ctx.sleep("nap", Duration::from_hours(1)).await?;
                Ok(key)
            }
        })
    };
    let first = harness.engine().workflow(job()).start().await.unwrap();
    let run = start(&first, "job", json!(null)).await;
    harness.advance(Duration::from_secs(2)).await;
    first.shutdown().await;
    let second = harness.engine().workflow(job()).start().await.unwrap();
    harness.advance(Duration::from_hours(2)).await;
    let key = format!("{run}:pay");
    assert_eq!(harness.completed(&second, run).await, json!(key));
    let mut all = marks.all();
    assert_eq!((all.len(), marks.count(&key)), (4 + 3, 3));
    all.retain(|mark| *mark != key);
    all.dedup();
    assert_eq!(all.len(), 1, "the values must be the same in every activation: {all:?}");
}

/// spec steps: a log line of a handler is written once, not on every replay.
pub(crate) async fn a_line_is_logged_once(harness: &TestHarness) {
    let lines = Marks::default();
    let _logging = tracing::subscriber::set_default(Lines(lines.clone()));
    let job = Workflow::new("job", |ctx: Ctx, _: Value| async move {
        ctx.log("one");
        let attempt = ctx.attempt("pay");
        let pay = ctx.step("pay", || async move {
            if attempt < 3 { Err(StepError::new("declined")) } else { Ok(()) }
        });
        pay.await?;
        ctx.log("two");
        ctx.sleep("nap", Duration::from_hours(1)).await?;
        ctx.log("three");
        Ok(())
    });
    let engine = harness.engine().workflow(job).start().await.unwrap();
    let run = start(&engine, "job", json!(null)).await;
    harness.advance(Duration::from_hours(2)).await;
    harness.completed(&engine, run).await;
    assert_eq!(lines.all(), ["one", "two", "three"]);
}

/// A log subscriber that collects the lines that handlers write.
struct Lines(Marks);

impl tracing::Subscriber for Lines {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target() == "tidegate::context"
    }

    fn event(&self, event: &tracing::Event<'_>) {
        struct Message<'a>(&'a Marks);
        impl tracing::field::Visit for Message<'_> {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                if field.name() == "message" {
                    self.0.mark(format!("{value:?}"));
                }
            }
        }
        event.record(&mut Message(&self.0));
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// The progress that a run reports is visible while its next step is executing. The latest report
/// overwrites earlier ones.
pub(crate) async fn progress_is_seen_before_the_step_ends(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let job = Workflow::new("job", move |ctx: Ctx, _: Value| {
        let journal = journal.clone();
        async move {
            for (n, text) in ["read", "write"].into_iter().enumerate() {
                ctx.progress(0.9, "not the last word");
                ctx.progress(if n == 0 { 0.0 } else { 0.5 }, text);
                let step = ctx.step(text, || async {
                    journal.spend(Duration::from_secs(10)).await;
                    Ok(())
                });
                step.await?;
            }
            Ok(())
        }
    });
    let engine = harness.engine().workflow(job).start().await.unwrap();
    let run = start(&engine, "job", json!({})).await;
    for (permille, text) in [(0, "read"), (500, "write")] {
        harness.advance(Duration::from_secs(5)).await;
        let progress = engine.look_up(run).await.unwrap().0.and_then(|run| run.progress);
        let progress = progress.map(|it| (it.permille, it.text));
        assert_eq!(progress, Some((permille, text.to_owned())));
        harness.advance(Duration::from_secs(5)).await;
    }
}
