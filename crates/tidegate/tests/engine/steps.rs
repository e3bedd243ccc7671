//! Steps: remembered, tried again, and never done twice once they are recorded.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tidegate::{Ctx, Fault, Retry, Workflow, testing::Lab};

use crate::words::start;

/// SPEC 9, B162: a replay returns what is recorded and repeats no effect.
pub(crate) async fn completed_steps_are_not_run_again(lab: &Lab) {
    let ran = Arc::new(AtomicU32::new(0));
    let effects = ran.clone();
    let order = Workflow::new("order", move |ctx: Ctx, input: Value| {
        let effects = effects.clone();
        async move {
            let effect = || async { Ok(effects.fetch_add(1, Ordering::SeqCst)) };
            let first = ctx.step("first", effect).await?;
            ctx.sleep("nap", Duration::from_secs(60)).await?;
            let second = ctx.step("second", effect).await?;
            Ok(json!([first, second, input["n"]]))
        }
    });
    let engine = lab.engine().workflow(order).start().await.unwrap();
    let run = start(&engine, "order", json!({ "n": 7 })).await;
    lab.advance(Duration::from_secs(59)).await;
    assert_eq!(lab.runs("order").await[0].state, "waiting");
    lab.advance(Duration::from_secs(1)).await;
    assert_eq!(lab.completed(&engine, run).await, json!([0, 1, 7]));
    assert_eq!(ran.load(Ordering::SeqCst), 2);
}

/// N20, N21: attempts in total are as many as the retry says, each after its delay.
pub(crate) async fn a_failing_step_is_tried_as_often_as_it_may(lab: &Lab) {
    let order = Workflow::new("order", |ctx: Ctx, input: Value| async move {
        let (attempt, good) = (ctx.attempt("pay"), input["good"].as_u64().unwrap_or(99));
        let pay = ctx.step("pay", || async move {
            if u64::from(attempt) < good { Err(Fault::new("declined")) } else { Ok(attempt) }
        });
        pay.retry(Retry::attempts(3).fixed(Duration::from_secs(1))).await
    });
    let engine = lab.engine().workflow(order).start().await.unwrap();
    let third = start(&engine, "order", json!({ "good": 3 })).await;
    let never = start(&engine, "order", json!({})).await;
    lab.advance(Duration::from_millis(1_999)).await;
    assert!(lab.runs("order").await.iter().all(|run| run.state == "waiting"));
    lab.advance(Duration::from_secs(1)).await;
    assert_eq!(lab.completed(&engine, third).await, json!(3));
    let failed = engine.output::<Value>(never).await.unwrap().unwrap_err();
    assert_eq!(failed.message(), "declined");
}
