//! Batching: an index is written a hundred documents at a time, and no document waits longer than
//! five seconds.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate::{Batch, Ctx, Result, Workflow, new_event, testing::TestHarness};

#[derive(Serialize, Deserialize)]
struct Document {
    index: String,
    number: u32,
}

/// Handler: takes all documents of a batch, in the order of their arrival.
async fn index(ctx: Ctx, documents: Vec<Document>) -> Result<String> {
    let (first, last) = (&documents[0], &documents[documents.len() - 1]);
    ctx.step("write", || async { Ok(()) }).await?;
    Ok(format!("{}: {} to {}", first.index, first.number, last.number))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let index = Workflow::new("index", index)
        .on_event("document/saved")
        .batch(Batch::of(100).within(Duration::from_secs(5)).key("index"));
    let harness = TestHarness::new();
    let engine = harness.engine().workflow(index).start().await?;

    let document = |number| Document { index: "books".to_owned(), number };
    let saved = (1..=250).map(|number| new_event("document/saved", document(number)));
    engine.send_all(saved.collect::<Result<_, _>>()?).await?;
    harness.settle().await;
    assert_eq!(harness.runs("index").await.len(), 2, "each full batch must start a run at once");
    harness.advance(Duration::from_secs(5)).await;

    let mut written = Vec::new();
    for run in harness.runs("index").await {
        written.push(engine.handle::<String>(run.id).output().await?);
    }
    println!("{written:#?}");
    assert_eq!(written, ["books: 1 to 100", "books: 101 to 200", "books: 201 to 250"]);
    Ok(())
}
