//! Waits and retries beside steps that still execute: they begin at once, are durable meanwhile, and
//! retries end in the same activation.

use futures_util::future::{Either, join, join3, select};
use serde_json::{Value, json};
use tidegate::{Ctx, Result, Retry, RunId, StepError, Workflow, testing::TestHarness};
use tidegate_core::row::{Row, Run};

use crate::words::{Journal, recorded_steps, secs, sharing, start, states};

/// Returns the live row of a run.
async fn row(harness: &TestHarness, run: RunId) -> Run {
    let rows = harness.store().dump().await.unwrap();
    let live = rows.into_iter().find_map(|row| match row {
        Row::Run(row) if row.id == run => Some(row),
        _ => None,
    });
    *live.expect("the run has not ended")
}

/// A step that takes 100 s, beside one that fails `fails` times.
fn uneven(journal: &Journal, fails: u32, repeatable: bool) -> Workflow<Value, ()> {
    let journal = journal.clone();
    let workflow = Workflow::new("uneven", move |ctx: Ctx, _: Value| {
        let journal = journal.clone();
        async move {
            let shaky = || async {
                let attempt = ctx.attempt("shaky");
                journal.note(format!("shaky {attempt}"));
                if attempt <= fails { Err(StepError::new("down")) } else { Ok(()) }
            };
            let long = ctx.step("long", || async {
                journal.note("long");
                journal.spend(secs(100)).await;
                Ok(())
            });
            let shaky = if repeatable {
                ctx.repeatable_step("shaky", shaky)
            } else {
                ctx.step("shaky", shaky)
            };
            let (long, shaky) = join(long.into_future(), shaky.into_future()).await;
            journal.note(format!("end {}", shaky.is_ok()));
            long
        }
    });
    workflow.retry(Retry { jitter: false, ..Retry::attempts(3).fixed(secs(10)) })
}

fn at(times: &[(u128, &str)]) -> Vec<(u128, String)> {
    times.iter().map(|(at, what)| (at * 1000, (*what).to_owned())).collect()
}

/// spec retries: a step that can be called again is retried when its backoff ends, while a sibling
/// executes. At the last attempt its failure is recorded.
pub(crate) async fn a_failed_step_is_tried_again_beside_another(harness: &TestHarness) {
    for (fails, last) in [(2, "end true"), (9, "end false")] {
        let journal = Journal::new(harness);
        let began = harness.timer().elapsed().as_millis();
        let engine =
            harness.engine().workflow(uneven(&journal, fails, true)).start().await.unwrap();
        let run = start(&engine, "uneven", json!(null)).await;
        harness.advance(secs(200)).await;
        let mut times = journal.take_times();
        for (at, _) in &mut times {
            *at -= began;
        }
        let wanted = [(0, "long"), (0, "shaky 1"), (10, "shaky 2"), (20, "shaky 3"), (100, last)];
        assert_eq!(times, at(&wanted));
        harness.completed(&engine, run).await;
        engine.shutdown().await;
    }
}

/// spec retries: the backoff of a step that is called once for each activation has elapsed when its
/// sibling ends.
pub(crate) async fn a_backoff_elapses_beside_another_step(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let engine = harness.engine().workflow(uneven(&journal, 1, false)).start().await.unwrap();
    let run = start(&engine, "uneven", json!(null)).await;
    harness.advance(secs(200)).await;
    let wanted = [(0, "long"), (0, "shaky 1"), (100, "shaky 2"), (100, "end true")];
    assert_eq!(journal.take_times(), at(&wanted));
    harness.completed(&engine, run).await;
}

/// spec retries: a failed attempt and the time of the next one outlive the engine that was driving
/// a sibling.
pub(crate) async fn a_failure_beside_another_step_is_durable(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let build = || sharing(harness).workflow(uneven(&journal, 2, true));
    let first = build().start().await.unwrap();
    let run = start(&first, "uneven", json!(null)).await;
    harness.advance(secs(15)).await;
    let known = row(harness, run).await;
    assert_eq!((known.failures["shaky"], known.waits.len()), (2, 1));
    harness.crash(&first).await;
    journal.take();
    let second = build().start().await.unwrap();
    harness.advance(secs(300)).await;
    let notes = journal.take();
    assert_eq!(notes, ["long", "shaky 3", "end true"], "no attempt may be repeated or lost");
    harness.completed(&second, run).await;
    assert_eq!(recorded_steps(harness, run).await, ["shaky", "long"]);
}

/// spec waits: a sleep, a wait and a child that are requested beside a step begin at once, and not
/// when the step has ended.
pub(crate) async fn waits_begin_beside_a_step(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let (notes, child) = (journal.clone(), journal.clone());
    let child = Workflow::new("child", move |_: Ctx, _: Value| {
        let journal = child.clone();
        async move {
            let _: () = journal.note("child");
            Ok(())
        }
    });
    let parent = Workflow::new("parent", move |ctx: Ctx, _: Value| {
        let journal = notes.clone();
        async move {
            let long = ctx.step("long", || async {
                journal.spend(secs(100)).await;
                Ok(())
            });
            let paid = ctx.wait_for_event::<Value>("paid", "paid").timeout(secs(80));
            let waits = join3(
                ctx.sleep("nap", secs(110)),
                paid,
                ctx.invoke::<_, Value>("child", "child", json!(null)),
            );
            let (long, (nap, paid, child)) = join(long.into_future(), waits).await;
            long?;
            nap?;
            child?;
            journal.note("end");
            paid
        }
    });
    let engine = harness.engine().workflow(parent).workflow(child).start().await.unwrap();
    let [answered, silent] =
        [start(&engine, "parent", json!(1)), start(&engine, "parent", json!(2))];
    let (answered, silent) = (answered.await, silent.await);
    harness.advance(secs(50)).await;
    assert_eq!(states(harness, "child").await, ["completed"; 2]);
    assert_eq!(states(harness, "parent").await, ["running"; 2]);
    assert_eq!(engine.send("paid", json!(7)).await.unwrap().woke, 2);
    let late = start(&engine, "parent", json!(3)).await;
    harness.advance(secs(59)).await;
    assert_eq!(journal.take(), ["child", "child", "child"]);
    harness.advance(secs(1)).await;
    assert_eq!(journal.take_times(), at(&[(110, "end"), (110, "end")]));
    harness.advance(secs(100)).await;
    assert_eq!(journal.take_times(), at(&[(160, "end")]));
    assert_eq!(harness.completed(&engine, answered).await, json!(7));
    assert_eq!(harness.completed(&engine, silent).await, json!(7));
    assert_eq!(harness.completed(&engine, late).await, json!(null));
}

/// spec waits: a step may send what leads to the answer that a wait beside it is for.
pub(crate) async fn an_answer_to_a_step_beside_the_wait_is_not_missed(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let ask = Workflow::new("ask", move |ctx: Ctx, _: Value| {
        let journal = journal.clone();
        async move {
            let answer = ctx.wait_for_event::<u32>("answer", "answer");
            let asks = ctx.step("ask", || async {
                ctx.state::<tokio::sync::mpsc::UnboundedSender<()>>()?.send(()).unwrap();
                journal.spend(secs(5)).await;
                Ok(())
            });
            let (answer, asks) = join(answer, asks.into_future()).await;
            asks?;
            answer
        }
    });
    let (asked, mut asks) = tokio::sync::mpsc::unbounded_channel::<()>();
    let engine = harness.engine().state(asked).workflow(ask).start().await.unwrap();
    let run = start(&engine, "ask", json!(null)).await;
    asks.recv().await.unwrap();
    assert_eq!(engine.send("answer", 42).await.unwrap().woke, 1);
    harness.advance(secs(5)).await;
    assert_eq!(harness.completed(&engine, run).await, json!(42));
}

/// spec steps: of a race between a step and a wait that was answered meanwhile, the step wins on
/// every replay, as it did first.
pub(crate) async fn a_step_wins_its_race_on_every_replay(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let build = || sharing(harness).workflow(race(&journal));
    let first = build().start().await.unwrap();
    let run = start(&first, "race", json!(null)).await;
    harness.advance(secs(5)).await;
    assert_eq!(first.send("paid", json!(null)).await.unwrap().woke, 1);
    harness.advance(secs(6)).await;
    assert_eq!(journal.take(), ["step"]);
    harness.crash(&first).await;
    let second = build().start().await.unwrap();
    harness.advance(secs(100)).await;
    harness.completed(&second, run).await;
    assert!(journal.take().iter().all(|winner| winner == "step"));
    assert_eq!(recorded_steps(harness, run).await, ["paid", "step", "nap", "last"]);
}

/// A race between a step of 10 s and an event.
fn race(journal: &Journal) -> Workflow<Value, ()> {
    let journal = journal.clone();
    Workflow::new("race", move |ctx: Ctx, _: Value| {
        let journal = journal.clone();
        async move {
            let step = ctx.step("step", || async {
                journal.spend(secs(10)).await;
                Ok(())
            });
            let paid = ctx.wait_for_event::<Value>("paid", "paid");
            let winner: Result<&str> = match select(paid, step.into_future()).await {
                Either::Left(_) => Ok("paid"),
                Either::Right((done, _)) => done.map(|()| "step"),
            };
            journal.note(winner?);
            ctx.sleep("nap", secs(10)).await?;
            ctx.step("last", || async { Ok(()) }).await
        }
    })
}
