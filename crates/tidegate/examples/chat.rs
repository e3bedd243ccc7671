//! A chat: messages are accepted at once, answers are produced one after another, and the session
//! stores both. An answer is emitted word by word while it is produced.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{
    Action, Ctx, Engine, Flow, Policy, Request, Result, RunId, RunUpdate, SessionRef, new_request,
    testing::TestHarness,
};

/// Action `append`: appends a message to the session.
async fn append(ctx: Ctx, text: String) -> Result<u64> {
    ctx.session()?.append("said", "messages", text).await
}

/// Action `respond`: answers the messages of the session.
async fn respond(ctx: Ctx, _: Value) -> Result<String> {
    let session = ctx.session()?;
    let messages: Vec<String> = session.get("read", "messages").await?.unwrap_or_default();
    // In place of a call to a language model, which takes time.
    ctx.sleep("think", Duration::from_secs(2)).await?;
    let answer = format!("I have read {} messages.", messages.len());
    ctx.step("write", || async {
        for word in answer.split(' ') {
            ctx.emit(word)?;
        }
        Ok(())
    })
    .await?;
    session.append("answered", "messages", &answer).await?;
    Ok(answer)
}

/// Calls an action in Ada's session.
async fn call(engine: &Engine, action: &str, input: Value) -> Result<(&'static str, RunId)> {
    let request = new_request("chat", action, input)?;
    let request = Request { session: Some("ada".to_owned()), ..request };
    let verdict = engine.dispatch(request).await?.verdict;
    println!("{action:<8} {}", verdict.outcome());
    Ok((verdict.outcome(), verdict.run().expect("neither policy refuses")))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let flow = Flow::new("chat")
        .action(Action::new("append", append).policy(Policy::allow()))
        .action(Action::new("respond", respond).policy(Policy::queue()));
    let harness = TestHarness::new();
    let engine = harness.engine().flow(flow).start().await?;

    call(&engine, "append", json!("Hello")).await?;
    harness.settle().await;
    let (_, first) = call(&engine, "respond", json!({})).await?;
    // The first answer is still being produced: the message is accepted at once, the second answer
    // is queued.
    harness.advance(Duration::from_secs(1)).await;
    assert_eq!(call(&engine, "append", json!("Are you there?")).await?.0, "started");
    let (outcome, second) = call(&engine, "respond", json!({})).await?;
    assert_eq!(outcome, "queued");
    println!("why      {}", engine.why(second).await?.sentence);
    harness.advance(Duration::from_secs(10)).await;

    let first = engine.handle::<String>(first);
    assert_eq!(first.output().await?, "I have read 1 messages.");
    let (mut updates, mut words) = (engine.handle::<String>(second).updates(), Vec::new());
    while let Some(update) = updates.next().await {
        if let RunUpdate::Chunk(chunk) = update? {
            words.push(chunk.to_string());
        }
    }
    println!("emitted  {}", words.join(" "));
    assert_eq!(words.join(" "), "I have read 3 messages.");

    let [app, flow, id] = ["default", "chat", "ada"].map(str::to_owned);
    let (_, document) = engine.session(&SessionRef { app, flow, id }).await?.expect("it is there");
    println!("session  {document}");
    assert_eq!(document.as_str().matches("messages.").count(), 2);
    Ok(())
}
