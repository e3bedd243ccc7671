//! Runs that commit to streams.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering},
};

use serde_json::json;
use tidegate::{Ctx, Query, Retry, StepError, Workflow, testing::TestHarness};

use super::{Account, Moved, append, versions};
use crate::{
    faults::{Failure, Faults},
    words::start,
};

/// spec steps, streams: the commits of a run are written once, however often its handler is
/// replayed. They have the run as their correlation, and the step as their cause.
pub(crate) async fn a_run_commits_to_a_stream_once(harness: &TestHarness) {
    let goes = Arc::new(AtomicU32::new(0));
    let counted = goes.clone();
    let pay = Workflow::new("pay", move |ctx: Ctx, amount: u64| {
        let goes = counted.clone();
        async move {
            let go = goes.fetch_add(1, Ordering::SeqCst);
            let paid = ctx
                .commit("in", "account-1", &[Moved::Deposited { amount }, Moved::Looked])
                .await?;
            let taken = ctx
                .act("out", "account-1", |account: &Account| {
                    Ok(vec![Moved::Withdrawn { amount: account.balance / 2 }])
                })
                .await?;
            let nothing = ctx.act("none", "account-1", |_: &Account| Ok(Vec::new())).await?;
            assert!(nothing.is_none());
            if go < 2 {
                return Err(StepError::new("once more"));
            }
            Ok(json!([paid.first, paid.last, taken.map(|taken| taken.first)]))
        }
    })
    .retry(Retry { max_attempts: 5, ..Retry::default() });
    let engine = harness.engine().workflow(pay).start().await.unwrap();
    let run = start(&engine, "pay", json!(10)).await;
    harness.advance(super::SECOND * 3600).await;
    assert_eq!(harness.completed(&engine, run).await, json!([0, 1, 2]));
    assert_eq!(goes.load(Ordering::SeqCst), 3);
    assert_eq!(versions(&engine, "account-1").await, [0, 1, 2]);
    let query = Query::all().correlation(run.to_string());
    let events = engine.streams().read(&query).await.unwrap().events;
    let causes: Vec<_> = events.iter().map(|event| event.causation.clone().unwrap()).collect();
    assert_eq!(causes, [format!("{run}:in"), format!("{run}:in"), format!("{run}:out")]);
}

/// spec retries: a commit is progress: the handler has all its attempts again.
pub(crate) async fn a_commit_is_progress(harness: &TestHarness) {
    let goes = Arc::new(AtomicU32::new(0));
    let counted = goes.clone();
    let pay = Workflow::new("pay", move |ctx: Ctx, (): ()| {
        let goes = counted.clone();
        async move {
            let go = goes.fetch_add(1, Ordering::SeqCst);
            for n in 0..=go {
                ctx.commit(format!("look {n}"), "account-1", &[Moved::Looked]).await?;
            }
            if go < 3 { Err(StepError::new("once more")) } else { Ok(go) }
        }
    });
    let engine = harness.engine().workflow(pay.retry(Retry::attempts(2))).start().await.unwrap();
    let run = start(&engine, "pay", json!(null)).await;
    harness.advance(super::SECOND * 3600).await;
    assert_eq!(harness.completed(&engine, run).await, json!(3));
}

/// spec streams: if another commit comes between the decision and the commit of a run, the run
/// decides again. Nothing of the first decision is committed.
pub(crate) async fn a_run_that_is_overtaken_decides_again(
    harness: &TestHarness,
    faults: &Arc<Faults>,
) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (noted, overtaker) = (seen.clone(), faults.clone());
    let pay = Workflow::new("pay", move |ctx: Ctx, (): ()| {
        let (seen, faults) = (noted.clone(), overtaker.clone());
        async move {
            let out = ctx.act("out", "account-1", |account: &Account| {
                let mut seen = seen.lock().unwrap();
                seen.push(account.balance);
                if seen.len() == 1 {
                    faults.overtake(append("account-1", &Moved::Deposited { amount: 5 }));
                }
                Ok(vec![Moved::Withdrawn { amount: account.balance }])
            });
            Ok(out.await?.map(|committed| committed.first))
        }
    });
    let engine = harness.engine().workflow(pay).start().await.unwrap();
    let run = start(&engine, "pay", json!(null)).await;
    harness.settle().await;
    assert_eq!(harness.completed(&engine, run).await, json!(1));
    assert_eq!(*seen.lock().unwrap(), [0, 5]);
    let loaded = engine.stream::<Account>("account-1").load().await.unwrap();
    assert_eq!((loaded.state.balance, loaded.version), (0, 1));
}

/// spec steps, streams: whichever answer of the store is lost, the commits of a run are written
/// once.
pub(crate) async fn a_lost_answer_doubles_no_commit(harness: &TestHarness, faults: &Arc<Faults>) {
    let pay = Workflow::new("pay", |ctx: Ctx, stream: String| async move {
        ctx.commit("in", &stream, &[Moved::Deposited { amount: 2 }]).await?;
        let half = |account: &Account| Ok(vec![Moved::Withdrawn { amount: account.balance / 2 }]);
        ctx.act("out", &stream, half).await?;
        Ok(())
    });
    let engine = harness.engine().workflow(pay).start().await.unwrap();
    harness.settle().await;
    let failures = [Failure::BeforeCommit, Failure::AfterCommit, Failure::Unavailable];
    for (n, failure) in (0..6).zip(failures.into_iter().cycle()) {
        let stream = format!("account-{n}");
        // The first transaction posts the event, so failures start with the second.
        faults.fail(1 + n / 3, failure);
        let run = start(&engine, "pay", json!(stream)).await;
        harness.advance(super::SECOND * 60).await;
        assert!(faults.has_failed());
        harness.completed(&engine, run).await;
        let loaded = engine.stream::<Account>(&stream).load().await.unwrap();
        let answer = (loaded.state.balance, loaded.version);
        assert_eq!(answer, (1, 1), "wrong result after {failure:?} of transaction {}", n / 3);
    }
}

/// spec steps: if a stream or an action refuses a commit, the refusal is recorded as the step's
/// error and is the same on every replay.
pub(crate) async fn a_refused_commit_is_how_its_step_ends(harness: &TestHarness) {
    let pay = Workflow::new("pay", |ctx: Ctx, (): ()| async move {
        let bad = ctx.commit("bad", "", &[Moved::Looked]).await.unwrap_err();
        let no = ctx
            .act("no", "account-1", |_: &Account| Err(StepError::coded("Frozen", "not today")))
            .await
            .unwrap_err();
        Ok(json!([bad.code(), no.code(), no.message(), no.is_fatal()]))
    });
    let engine = harness.engine().workflow(pay).start().await.unwrap();
    let run = start(&engine, "pay", json!(null)).await;
    harness.settle().await;
    let answer = json!(["BadName", "Frozen", "not today", true]);
    assert_eq!(harness.completed(&engine, run).await, answer);
    assert_eq!(engine.streams().position().await.unwrap(), 0);
}
