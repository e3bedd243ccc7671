//! Single steps that pass pools.

use futures_util::future::{select, try_join_all};
use serde_json::{Value, json};
use tidegate::{Concurrency, Ctx, Pool, Rate, Retry, StepError, Workflow, testing::TestHarness};
use tidegate_core::{flow::gate::holders, row::Row};

use crate::words::{Journal, burst, failed, ms, n, secs, sharing, start, state, work};

/// A workflow whose runs have `steps` parallel steps, each of which passes the pool `gpu` and works
/// for a time.
fn fan_out(journal: &Journal, steps: usize, time: std::time::Duration) -> Workflow<Value, Value> {
    let journal = journal.clone();
    Workflow::new("chat", move |ctx: Ctx, input: Value| {
        let journal = journal.clone();
        async move {
            let each = (0..steps).map(|step| {
                let (ctx, journal, line) = (&ctx, &journal, format!("{}.{step}", n(&input)));
                async move {
                    let run = || async {
                        journal.work("gpu", line, time).await;
                        Ok(step)
                    };
                    ctx.step(format!("ask {step}"), run).pool("gpu").await
                }
            });
            let done = try_join_all(each).await?;
            Ok(json!(done))
        }
    })
}

fn gpu(limit: u32) -> Pool {
    Pool::new("gpu").concurrency(limit)
}

/// spec L7, L4, G1: over all runs, at every instant at most as many steps are inside as the pool
/// allows, beside the runs of a workflow that uses it; all of them end, and no place is idle while
/// one waits.
pub(crate) async fn steps_of_many_runs_share_a_pool(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let chat = fan_out(&journal, 2, secs(1));
    let user = work(&journal, "user", secs(1)).concurrency(Concurrency::pool("gpu"));
    let engine = harness.engine().pool(gpu(3)).workflow(chat).workflow(user);
    let engine = engine.start().await.unwrap();
    burst(&engine, "chat", 12).await;
    burst(&engine, "user", 6).await;
    harness.advance(secs(10)).await;
    let both = journal.most("gpu") + journal.most("user");
    assert!(journal.most("gpu") == 3 && both <= 6, "{}", journal.most("gpu"));
    assert_eq!(journal.take().len(), 30, "thirty seconds of work take ten, three at a time");
    harness.advance(secs(1)).await;
    let runs = [harness.runs("chat").await, harness.runs("user").await].concat();
    assert!(runs.iter().all(|run| run.state == "completed"), "{runs:?}");
    let rows = harness.store().dump().await.unwrap();
    let held = |row: &Row| matches!(row, Row::Gate(gate) if !holders(gate).is_empty());
    assert!(!rows.iter().any(held), "a place is left");
}

/// spec L7: at most 100 steps of a run are in pools at the same time, whatever room these have; the
/// others begin as soon as places end.
pub(crate) async fn more_steps_than_a_run_has_in_pools_wait_for_their_end(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let chat = fan_out(&journal, 150, secs(1));
    let engine = harness.engine().pool(gpu(200)).workflow(chat).start().await.unwrap();
    let run = start(&engine, "chat", json!({ "n": 0 })).await;
    harness.advance(secs(1)).await;
    assert_eq!(journal.most("gpu"), 100);
    harness.advance(secs(1)).await;
    assert_eq!(journal.take().len(), 150, "the last 50 steps did not begin at the end of others");
    assert_eq!(harness.completed(&engine, run).await.as_array().map(Vec::len), Some(150));
    let rows = harness.store().dump().await.unwrap();
    let held = |row: &Row| matches!(row, Row::Gate(gate) if !holders(gate).is_empty());
    assert!(!rows.iter().any(held), "a place is left");
}

/// spec L7: 150 parallel steps of one run pass a pool with little room, without a park for each.
pub(crate) async fn many_steps_of_one_run_pass_a_small_pool(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let chat = fan_out(&journal, 150, secs(1));
    let engine = harness.engine().pool(gpu(3)).workflow(chat).start().await.unwrap();
    let run = start(&engine, "chat", json!({ "n": 0 })).await;
    harness.advance(secs(50)).await;
    assert_eq!((journal.most("gpu"), journal.take().len()), (3, 150), "a place was idle");
    harness.completed(&engine, run).await;
}

/// spec L7: a run that waits for a pool occupies no worker.
pub(crate) async fn a_parked_run_frees_its_worker(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let chat = fan_out(&journal, 1, secs(10));
    let plain = work(&journal, "plain", secs(1));
    let engine = harness.engine().workers(2).pool(gpu(1)).workflow(chat).workflow(plain);
    let engine = engine.start().await.unwrap();
    let mut runs = Vec::new();
    for n in 0..3 {
        runs.push(start(&engine, "chat", json!({ "n": n })).await);
    }
    harness.settle().await;
    let plain = start(&engine, "plain", json!({ "n": "plain" })).await;
    harness.advance(secs(1)).await;
    assert_eq!(harness.completed(&engine, plain).await["n"], json!("plain"));
    assert_eq!(journal.take(), ["0.0", "\"plain\""]);
    let why = engine.why(runs[1]).await.unwrap();
    let waits = "; its step `ask 0` waits for concurrency of pool `gpu`";
    assert!(why.sentence.ends_with(waits), "{}", why.sentence);
    harness.advance(secs(30)).await;
    assert_eq!(journal.take_times().len(), 2);
    for run in runs {
        harness.completed(&engine, run).await;
    }
}

/// spec L7: each attempt takes the place anew, and spends the throttle of the pool; a recorded step
/// takes nothing in a replay.
pub(crate) async fn each_attempt_passes_the_pool(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let noted = journal.clone();
    let flaky = Workflow::new("flaky", move |ctx: Ctx, input: Value| {
        let journal = noted.clone();
        async move {
            let attempt = ctx.attempt("ask");
            let ask = ctx.step("ask", || async {
                journal.work("gpu", format!("{} {attempt}", n(&input)), ms(100)).await;
                if attempt < 3 { Err(StepError::new("busy")) } else { Ok(()) }
            });
            ask.pool("gpu").retry(Retry::attempts(3).fixed(ms(100))).await?;
            ctx.sleep("nap", secs(60)).await?;
            journal.note("awake");
            Ok(input)
        }
    });
    let pool = gpu(1).throttle(Rate::per_second(1).burst(2));
    let engine = harness.engine().pool(pool).workflow(flaky).start().await.unwrap();
    start(&engine, "flaky", json!({ "n": 0 })).await;
    start(&engine, "flaky", json!({ "n": 1 })).await;
    harness.advance(secs(20)).await;
    // Two attempts at once by the burst, then one a second.
    let lines = journal.take_times();
    let at: Vec<u128> = lines.iter().map(|(at, _)| *at).collect();
    assert_eq!(at, [0, 100, 1000, 2000, 3000, 4000], "{lines:?}");
    assert_eq!(journal.most("gpu"), 1);
    harness.advance(secs(60)).await;
    assert_eq!(journal.take(), ["awake", "awake"]);
    start(&engine, "flaky", json!({ "n": 2 })).await;
    harness.settle().await;
    assert_eq!(journal.take(), ["2 1"], "a replay has spent a turn");
}

/// spec L7: an error that no wait would end fails the step without a retry, and names what is wrong.
pub(crate) async fn what_never_fits_fails_the_step(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let noted = journal.clone();
    let wrong = Workflow::new("wrong", move |ctx: Ctx, how: String| {
        let journal = noted.clone();
        async move {
            journal.note(&how);
            let step = || ctx.step("ask", || async { Ok(()) });
            match how.as_str() {
                "cost" => step().pool("gpu").cost(6).await,
                "unknown" => step().pool("gpus").await,
                "key" => step().pool("gpu").key(json!({ "no": "key" })).await,
                _ => {
                    let inner = ctx.step("inner", || async { Ok(()) }).pool("gpu");
                    ctx.step("outer", || inner.into_future()).await
                }
            }
        }
    });
    let engine = harness.engine().pool(gpu(5)).workflow(wrong).start().await.unwrap();
    for (how, code, message) in [
        ("cost", "CostExceedsLimit", "step `ask`: cost 6 exceeds limit 5 of pool `gpu`"),
        ("unknown", "UnknownPool", "step `ask`: pool `gpus` does not exist: did you mean `gpu`?"),
        (
            "key",
            "PoolKey",
            "step `ask`: the key at pool `gpu` needs a string, number or boolean, or 2 to 8 of them",
        ),
        (
            "nested",
            "NestedPools",
            "step `inner` passes a pool inside of step `outer`: the run would wait for the pool \
             until `outer` has ended; request it after that step",
        ),
    ] {
        let run = start(&engine, "wrong", json!(how)).await;
        harness.advance(secs(1)).await;
        let error = failed(&engine, run).await;
        assert_eq!((error.code(), error.message()), (code, message));
        assert_eq!(journal.take(), [how], "the handler was tried again");
    }
}

/// spec L7: a rate limit of a pool delays the attempt until its time, which is no failed attempt.
pub(crate) async fn a_rate_limit_uses_up_no_attempt(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let noted = journal.clone();
    let chat = Workflow::new("chat", move |ctx: Ctx, input: Value| {
        let journal = noted.clone();
        async move {
            let attempt = ctx.attempt("ask");
            let ask = ctx.step("ask", || async {
                journal.note(format!("{} {attempt}", n(&input)));
                Ok(())
            });
            ask.retry(Retry::attempts(1)).pool("gpu").await?;
            Ok(input)
        }
    });
    let pool = Pool::new("gpu").rate_limit(Rate::per_second(2).burst(1));
    let engine = harness.engine().pool(pool).workflow(chat).start().await.unwrap();
    burst(&engine, "chat", 3).await;
    harness.advance(secs(5)).await;
    let mut lines = journal.take_times();
    lines.sort();
    let at: Vec<u128> = lines.iter().map(|(at, _)| *at).collect();
    assert_eq!(at, [0, 500, 1000], "{lines:?}");
    assert!(lines.iter().all(|(_, line)| line.ends_with(" 1")), "{lines:?}");
}

/// A workflow whose runs race a step in the pool against another step, of one second, or against
/// an event, and work for 50 seconds after.
fn race(journal: &Journal) -> Workflow<Value, Value> {
    let journal = journal.clone();
    Workflow::new("race", move |ctx: Ctx, input: Value| {
        let journal = journal.clone();
        async move {
            let spend = async |time| {
                journal.spend(time).await;
                Ok(())
            };
            let ask = ctx.step("ask", || async {
                journal.work("gpu", n(&input), secs(100)).await;
                Ok(())
            });
            let ask = ask.pool("gpu").into_future();
            if input["event"].is_null() {
                let other = ctx.step("other", || spend(secs(1))).into_future();
                drop(select(ask, other).await);
            } else {
                let event = ctx.wait_for_event::<Value>("go", "go");
                drop(select(ask, event).await);
            }
            ctx.step("long", || spend(secs(50))).await?;
            Ok(input)
        }
    })
}

/// spec L7: a step that its code drops gives its place back: after it has begun, and when the run
/// has got the place, but goes on with an event that came before.
pub(crate) async fn a_dropped_step_gives_its_place_back(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let chat = fan_out(&journal, 1, secs(10));
    let engine = harness.engine().pool(gpu(1)).workflow(race(&journal)).workflow(chat);
    let engine = engine.start().await.unwrap();
    let first = start(&engine, "race", json!({ "n": "first" })).await;
    harness.settle().await;
    let chat = start(&engine, "chat", json!({ "n": 1 })).await;
    let second = start(&engine, "race", json!({ "n": "second", "event": true })).await;
    let last = start(&engine, "chat", json!({ "n": 2 })).await;
    harness.advance(ms(999)).await;
    assert_eq!(journal.take(), ["\"first\""]);
    harness.advance(ms(1)).await;
    assert_eq!(journal.take(), ["1.0"], "the dropped step has kept its place");
    engine.send("go", json!({})).await.unwrap();
    assert_eq!(state(harness, "race", second).await, "queued", "it is in the queue");
    harness.advance(secs(10)).await;
    assert_eq!(journal.take(), ["2.0"], "a place that nobody claims was kept");
    for (workflow, run) in [("race", first), ("race", second), ("chat", last)] {
        assert_eq!(state(harness, workflow, run).await, "running");
    }
    harness.advance(secs(51)).await;
    for run in [first, chat, second, last] {
        harness.completed(&engine, run).await;
    }
}

/// spec L7, G6: the place of a step returns with the lease of an engine that died, and not before.
/// An engine that shuts down gives it back at once.
pub(crate) async fn the_place_ends_with_the_lease(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let build = || sharing(harness).pool(gpu(1)).workflow(fan_out(&journal, 1, secs(100)));
    let first = build().start().await.unwrap();
    let run = start(&first, "chat", json!({ "n": 0 })).await;
    harness.advance(secs(1)).await;
    let second = build().start().await.unwrap();
    let other = start(&second, "chat", json!({ "n": 1 })).await;
    harness.advance(secs(5)).await;
    assert_eq!((journal.take(), journal.inside("gpu")), (vec!["0.0".to_owned()], 1));
    assert_eq!(state(harness, "chat", other).await, "queued");
    harness.crash(&first).await;
    harness.advance(secs(20)).await;
    assert!(journal.take().is_empty(), "the place is held until the lease has ended");
    harness.advance(secs(50)).await;
    let lines = journal.take();
    assert_eq!((lines.len(), journal.inside("gpu")), (1, 1), "{lines:?}");
    let third = build().start().await.unwrap();
    harness.settle().await;
    second.shutdown().await;
    harness.advance(secs(1)).await;
    assert_eq!((journal.take().len(), journal.inside("gpu")), (1, 1));
    harness.advance(secs(210)).await;
    for run in [run, other] {
        harness.completed(&third, run).await;
    }
    assert_eq!(journal.most("gpu"), 1);
}

/// spec L7: steps of one run that find no room ask again when another of its steps has ended: they
/// need no new activation of the handler.
pub(crate) async fn steps_of_one_run_take_turns(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let chat = fan_out(&journal, 5, secs(1));
    let engine = harness.engine().pool(gpu(2)).workflow(chat).start().await.unwrap();
    let run = start(&engine, "chat", json!({ "n": 0 })).await;
    harness.advance(secs(3)).await;
    assert_eq!(harness.completed(&engine, run).await, json!([0, 1, 2, 3, 4]));
    assert_eq!((journal.most("gpu"), journal.take().len()), (2, 5));
    let fence = crate::words::steps(harness, run).await.iter().map(|step| step.fence).max();
    assert_eq!(fence, Some(1), "the run was parked although its own step gave its place back");
}
