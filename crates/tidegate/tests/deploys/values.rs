//! Step values that cannot be read back, and step ids that are reserved.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate::{
    Ctx, Result, Workflow,
    testing::{TestHarness, VirtualClock},
};
use tidegate_core::row::Ending;
use tidegate_store::SqliteStore;

/// A value that is written as a number but read as a text.
#[derive(Deserialize)]
#[serde(transparent)]
struct OneWay(#[allow(dead_code, reason = "it is never read")] String);

impl Serialize for OneWay {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(1)
    }
}

const NIGHT: Duration = Duration::from_mins(1);

/// A step whose value cannot be read back fails when it is executed, and in the same way on replay.
/// The error names the step.
#[tokio::test]
async fn a_value_that_cannot_be_read_back_is_the_failure_of_its_step() {
    let harness = TestHarness::new();
    let job = Workflow::new("job", async |ctx: Ctx, _: Value| {
        let value = ctx.step("value", || async { Ok(OneWay(String::new())) }).await;
        let fault = value.err().map(|fault| fault.to_string()).unwrap_or_default();
        ctx.sleep("night", NIGHT).await?;
        Ok(fault)
    });
    let engine = harness.engine().workflow(job).start().await.unwrap();
    let run = engine.send("job", json!(null)).await.unwrap().run().unwrap();
    harness.advance(NIGHT).await;
    let fault = harness.completed(&engine, run).await.to_string();
    assert!(fault.contains("the record of step `value` cannot be read"), "{fault}");
}

/// The same for a transactional step: none of its writes is committed.
#[tokio::test]
async fn a_transaction_whose_value_cannot_be_read_back_is_undone() {
    let clock = Arc::new(VirtualClock::default());
    let store = SqliteStore::in_memory(clock.clone()).await.unwrap();
    let harness = TestHarness::on(Arc::new(store), clock);
    let job = Workflow::new("job", async |ctx: Ctx, _: Value| {
        let value = ctx
            .sqlite_step("value", |tx| {
                tx.execute_batch("create table kept (n integer)")?;
                Ok(OneWay(String::new()))
            })
            .await;
        let fault = value.err().map(|fault| fault.to_string()).unwrap_or_default();
        ctx.sleep("night", NIGHT).await?;
        let kept = ctx.sqlite_step("kept", |tx| {
            let tables = "select count(*) from sqlite_schema where name = 'kept'";
            Ok(tx.query_row(tables, [], |row| row.get::<_, i64>(0))?)
        });
        Ok((fault, kept.await?))
    });
    let engine = harness.engine().workflow(job).start().await.unwrap();
    let run = engine.send("job", json!(null)).await.unwrap().run().unwrap();
    harness.advance(NIGHT).await;
    let (fault, kept): (String, i64) =
        serde_json::from_value(harness.completed(&engine, run).await).unwrap();
    assert!(fault.contains("the record of step `value` cannot be read"), "{fault}");
    assert_eq!(kept, 0);
}

/// A step with the id of a patch marker would not be checked on replay, so it is refused.
#[tokio::test]
async fn ids_of_patch_markers_are_refused() {
    let harness = TestHarness::new();
    let job = Workflow::new("job", async |ctx: Ctx, _: Value| {
        ctx.step("patch:mine", || async { Ok(()) }).await.ok();
        Ok(())
    });
    let engine = harness.engine().workflow(job).start().await.unwrap();
    let run = engine.send("job", json!(null)).await.unwrap().run().unwrap();
    harness.settle().await;
    let (_, ended) = engine.look_up(run).await.unwrap();
    let Ending::Failed { error } = ended.unwrap().ending else { panic!("expected a failed run") };
    assert_eq!(error.code, "BadStep");
    assert!(error.message.contains("`patch:mine`"), "{}", error.message);
}
