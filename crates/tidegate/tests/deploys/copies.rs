//! Runs that begin with the records of another: retries from a step.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::SeqCst},
};

use serde_json::Value;
use tidegate::{Action, Ctx, Fault, Flow, Policy, new_request, testing::Lab};

/// Under `restart` the operations on a session went with the run that failed: they are taken
/// again before the steps that were copied, and the code has not changed for that.
#[tokio::test]
async fn a_retry_takes_staged_operations_again_before_copied_steps() {
    let lab = Lab::new();
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
                if first { Err(Fault::new("no server").fatal()) } else { Ok(()) }
            });
            mail.await?;
            session.get::<String>("look", "title").await
        }
    });
    let flow = Flow::new("chat").action(edit.policy(Policy::restart()));
    let engine = lab.engine().flow(flow).start().await.unwrap();
    let mut request = new_request("chat", "edit", 0).unwrap();
    request.session = Some("s".to_owned());
    let first = engine.dispatch(request).await.unwrap().verdict.run().unwrap();
    lab.settle().await;
    assert_eq!(lab.runs("chat/edit").await[0].state, "failed");
    let second = engine.retry_from(first, "mail").await.unwrap().verdict.run().unwrap();
    lab.settle().await;
    assert_eq!(lab.completed(&engine, second).await, "new");
    assert_eq!(charged.load(SeqCst), 1);
}
