//! The engine on a virtual clock.
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tidegate::{Ctx, Fault, Workflow, testing::Lab};

#[tokio::test]
async fn a_run_does_its_steps_once_and_completes() {
    let lab = Lab::new();
    let ran = Arc::new(AtomicUsize::new(0));
    let count = ran.clone();
    let workflow = Workflow::new("order", move |ctx: Ctx, input: Value| {
        let count = count.clone();
        async move {
            let a: u64 = ctx
                .step("a", || async {
                    count.fetch_add(1, Ordering::SeqCst);
                    Ok(1)
                })
                .await?;
            ctx.sleep("nap", Duration::from_secs(60)).await?;
            let b: u64 = ctx
                .step("b", || async {
                    count.fetch_add(1, Ordering::SeqCst);
                    Ok(2)
                })
                .await?;
            Ok(json!({ "sum": a + b, "n": input["n"] }))
        }
    });
    let engine = lab.engine().workflow(workflow).start().await.unwrap();
    let posted = engine.send("order", json!({ "n": 7 })).await.unwrap();
    let run = posted.runs[0].verdict.run().unwrap();
    lab.advance(Duration::from_secs(59)).await;
    assert_eq!(lab.runs("order").await[0].state, "waiting");
    lab.advance(Duration::from_secs(1)).await;
    assert_eq!(lab.completed(&engine, run).await, json!({ "sum": 3, "n": 7 }));
    assert_eq!(ran.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_failing_step_is_tried_again() {
    let lab = Lab::new();
    let workflow = Workflow::new("order", |ctx: Ctx, _: Value| async move {
        let attempt = ctx.attempt("a");
        ctx.step("a", || async move {
            if attempt < 3 { Err(Fault::new("not yet")) } else { Ok(attempt) }
        })
        .await
    });
    let engine = lab.engine().workflow(workflow).start().await.unwrap();
    let posted = engine.send("order", json!({})).await.unwrap();
    let run = posted.runs[0].verdict.run().unwrap();
    lab.advance(Duration::from_secs(10)).await;
    assert_eq!(lab.completed(&engine, run).await, json!(3));
}
