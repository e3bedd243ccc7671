//! Retention: what is over and old goes, and nothing that is still needed.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{Ctx, Retention, Workflow, core::row::Row, testing::Lab};

use crate::words::start;

/// SPEC 9: finished runs, their steps and their events go after their time; a run that is alive
/// keeps what it was started with.
pub(crate) async fn what_is_over_and_old_is_deleted(lab: &Lab) {
    let hour = Duration::from_hours(1);
    let order = Workflow::new("order", move |ctx: Ctx, input: Value| async move {
        ctx.step("pay", || async { Ok(()) }).await?;
        if input == json!("slow") {
            ctx.sleep("nap", hour * 12).await?;
        }
        Ok(())
    });
    let retention = Retention { runs: hour * 2, events: hour * 2, receipts: hour * 2 };
    let engine = lab.engine().workflow(order).retention(retention).start().await.unwrap();
    let quick = start(&engine, "order", json!("quick")).await;
    let slow = start(&engine, "order", json!("slow")).await;
    lab.advance(hour).await;
    assert!(engine.look_up(quick).await.unwrap().1.is_some(), "it is not old yet");
    lab.advance(hour * 4).await;
    assert_eq!(engine.look_up(quick).await.unwrap(), (None, None), "it is gone");
    let rows = lab.store().dump().await.unwrap();
    let steps = rows.iter().filter(|row| matches!(row, Row::Step(_))).count();
    let events = rows.iter().filter(|row| matches!(row, Row::Event(_))).count();
    assert_eq!((steps, events), (1, 1), "only what the slow one needs");
    lab.advance(hour * 8).await;
    lab.completed(&engine, slow).await;
    lab.advance(hour * 4).await;
    assert_eq!(engine.look_up(slow).await.unwrap(), (None, None), "it is gone too");
}
