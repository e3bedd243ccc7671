//! Runs that start with copies of another run's records: retries from a step.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tidegate::{Action, Ctx, Flow, Policy, StepError, new_request, testing::TestHarness};
use tidegate_core::row::Ending;

use crate::program::{All, Fails, Select, Signal, Sleep, Step, World, step};

/// Under `restart`, the staged session operations of the failed run were discarded. The new run
/// executes them again before the copied steps, and this does not count as changed code.
#[tokio::test]
async fn a_retry_takes_staged_operations_again_before_copied_steps() {
    let harness = TestHarness::new();
    let (charged, tries) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let effects = charged.clone();
    let edit = Action::new("edit", move |ctx: Ctx, _: Value| {
        let (effects, tries) = (effects.clone(), tries.clone());
        async move {
            let session = ctx.session()?;
            session.set("title", "title", "new").await?;
            let charge = ctx.step("charge", || async { Ok(effects.fetch_add(1, SeqCst)) });
            charge.await?;
            let mail = ctx.step("mail", || async {
                let first = tries.fetch_add(1, SeqCst) == 0;
                if first { Err(StepError::new("no server").fatal()) } else { Ok(()) }
            });
            mail.await?;
            session.get::<String>("look", "title").await
        }
    });
    let flow = Flow::new("chat").action(edit.policy(Policy::restart()));
    let engine = harness.engine().flow(flow).start().await.unwrap();
    let mut request = new_request("chat", "edit", 0).unwrap();
    request.session = Some("s".to_owned());
    let first = engine.dispatch(request).await.unwrap().verdict.run().unwrap();
    harness.settle().await;
    assert_eq!(harness.runs("chat/edit").await[0].state, "failed");
    let second = engine.retry_from(first, "mail").await.unwrap().verdict.run().unwrap();
    harness.settle().await;
    assert_eq!(harness.completed(&engine, second).await, "new");
    assert_eq!(charged.load(SeqCst), 1);
}

/// Copied records are replayed in the order in which the first run received them: a signal that
/// arrived while its steps were executing comes after those steps.
#[tokio::test]
async fn a_retry_gets_its_copies_in_their_first_order() {
    let id = str::to_owned;
    let harness = TestHarness::new();
    let world = World::new(&harness);
    let nap = Sleep(id("nap"), 1_000);
    let steps = All(vec![nap, Step(id("x"), 5_000), step("y"), Sleep(id("long"), 600_000)]);
    let race = Select(vec![steps, Signal(id("signal"), 600_000)]);
    let code = All(vec![race, Fails(id("mail"))]);
    let engine = harness.engine().workflow(world.job(&code)).start().await.unwrap();
    let first = engine.send("job", json!(null)).await.unwrap().run().unwrap();
    harness.advance(Duration::from_secs(3)).await;
    engine.signal(first, "go", json!(null)).await.unwrap();
    harness.advance(Duration::from_mins(1)).await;
    let second = engine.retry_from(first, "mail").await.unwrap().verdict.run().unwrap();
    harness.advance(Duration::from_mins(1)).await;
    let (_, ended) = engine.look_up(second).await.unwrap();
    let Ending::Failed { error } = ended.unwrap().ending else { panic!("expected a failed run") };
    assert_eq!(error.message, "never", "{}", error.code);
}
