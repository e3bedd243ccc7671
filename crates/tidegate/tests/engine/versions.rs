//! Versions: which code drives a run, and what happens to older runs at a release.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{
    Action, Ctx, Engine, Error, Flow, Handoff, OnNewVersion, RunId, Workflow, new_request,
    testing::TestHarness,
};
use tidegate_core::{command::Refusal, flow::Verdict, row::Ending};

use crate::words::{Journal, n, secs, sharing, start, states, verdict};

/// A version of `order`. Its code records `code:version:n`, works, and sleeps as its input says.
fn order(journal: &Journal, code: u32, time: Duration) -> Workflow<Value, Value> {
    let journal = journal.clone();
    Workflow::new("order", move |ctx: Ctx, input: Value| {
        let journal = journal.clone();
        async move {
            let line = format!("{code}:{}:{}", ctx.version(), n(&input));
            let work = ctx.step("work", || async {
                journal.work("order", line, time).await;
                Ok(())
            });
            work.await?;
            ctx.sleep("nap", secs(input["nap"].as_u64().unwrap_or_default())).await?;
            Ok(json!([code, ctx.version()]))
        }
    })
    .version(code)
}

/// spec B157, B158, B160, versions: a run keeps the version and the code that it started with. New
/// runs use the next version, in the same process.
pub(crate) async fn a_run_keeps_its_version(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = |code| order(&journal, code, secs(0));
    let engine = harness.engine().workflow(order(1)).start().await.unwrap();
    let old = start(&engine, "order", json!({ "n": 0, "nap": 10 })).await;
    harness.advance(secs(1)).await;
    engine.shutdown().await;
    let both = harness.engine().workflow(order(1)).workflow(order(2)).start().await.unwrap();
    let new = start(&both, "order", json!({ "n": 1, "nap": 10 })).await;
    harness.advance(secs(20)).await;
    assert_eq!(harness.completed(&both, old).await, json!([1, 1]));
    assert_eq!(harness.completed(&both, new).await, json!([2, 2]));
    assert_eq!(journal.take(), ["1:1:0", "2:2:1"]);
}

/// spec versions: newer code that declares `also_serves` continues the runs of older versions,
/// unless those versions have code of their own. Runs that no engine serves are stranded, and `why`
/// says so.
pub(crate) async fn newer_code_can_continue_older_runs(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = |code| order(&journal, code, secs(0));
    let engine = harness.engine().workflow(order(1)).workflow(order(2)).start().await.unwrap();
    engine.release("default", "order", 1).await.unwrap();
    let one = start(&engine, "order", json!({ "nap": 10 })).await;
    engine.release("default", "order", 2).await.unwrap();
    let two = start(&engine, "order", json!({ "nap": 10 })).await;
    harness.advance(secs(1)).await;
    engine.shutdown().await;

    let only_three = harness.engine().workflow(order(3)).start().await.unwrap();
    harness.advance(secs(20)).await;
    assert!(only_three.why(one).await.unwrap().stranded);
    only_three.shutdown().await;

    let also = order(3).also_serves(1..=2);
    let engine = harness.engine().workflow(order(2)).workflow(also).start().await.unwrap();
    harness.advance(secs(1)).await;
    assert_eq!(
        harness.completed(&engine, one).await,
        json!([3, 1]),
        "the newest code must finish the run"
    );
    assert_eq!(harness.completed(&engine, two).await, json!([2, 2]), "by its own");
}

/// spec versions, N47: only a higher number is released automatically. To roll back, an older
/// version is released, and that lasts.
pub(crate) async fn rolling_back_is_a_release(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let both = || {
        let engine = harness.engine().workflow(order(&journal, 2, secs(0)));
        engine.workflow(order(&journal, 1, secs(0)))
    };
    let engine = both().start().await.unwrap();
    start(&engine, "order", json!({ "n": 0 })).await;
    engine.release("default", "order", 1).await.unwrap();
    start(&engine, "order", json!({ "n": 1 })).await;
    harness.settle().await;
    engine.shutdown().await;
    let engine = both().start().await.unwrap();
    start(&engine, "order", json!({ "n": 2 })).await;
    let refused = engine.release("default", "order", 9).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::NoVersion { version: 9, .. }))));
    harness.settle().await;
    assert_eq!(journal.take(), ["2:2:0", "1:1:1", "1:1:2"]);
}

/// Starts two engines with workers. The first serves version 1, the second versions 1 and 2.
async fn two_versions(
    harness: &TestHarness,
    journal: &Journal,
    handoff: &Handoff,
    runs: &[Value],
) -> (Engine, Engine, Vec<RunId>) {
    let order = |code| order(journal, code, secs(10)).handoff(handoff.clone());
    let first = sharing(harness).workflow(order(1)).start().await.unwrap();
    let mut ids = Vec::new();
    for data in runs {
        ids.push(start(&first, "order", data.clone()).await);
    }
    harness.advance(secs(1)).await;
    let second = sharing(harness).workflow(order(1)).workflow(order(2)).start().await.unwrap();
    (first, second, ids)
}

/// spec B145, B149: within one version a second run waits, and its verdict says why.
pub(crate) async fn within_one_version_a_second_run_waits(harness: &TestHarness) {
    for policy in [OnNewVersion::Supersede, OnNewVersion::Drain, OnNewVersion::Coexist] {
        let journal = Journal::new(harness);
        let name = format!("{policy:?}");
        let noted = journal.clone();
        let order = Workflow::new(&name, move |_: Ctx, input: Value| {
            let journal = noted.clone();
            async move {
                journal.work("order", n(&input), secs(1)).await;
                Ok(())
            }
        });
        let order = order.version(1).handoff(Handoff::singleton(policy));
        let engine = harness.engine().workflow(order).start().await.unwrap();
        assert_eq!(verdict(&engine, &name, json!({ "n": 0 })).await.outcome(), "started");
        let second = verdict(&engine, &name, json!({ "n": 1 })).await;
        assert!(matches!(&second, Verdict::Queued { by, .. } if by.control == "handoff"));
        harness.advance(secs(2)).await;
        assert_eq!((journal.take().len(), journal.most("order")), (2, 1));
    }
}

/// spec B150, B151, B152, B157, G7: the first run of a newer version cancels the older one. Runs
/// that have not started change to the newer version and keep their positions. The release alone
/// has no effect on runs.
pub(crate) async fn supersede_cancels_older_runs(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let handoff = Handoff::singleton(OnNewVersion::Supersede);
    let old = [json!({ "n": 0 }), json!({ "n": 1 })];
    let (_first, second, old) = two_versions(harness, &journal, &handoff, &old).await;
    harness.advance(secs(1)).await;
    assert_eq!(
        states(harness, "order").await,
        ["running", "queued"],
        "a release without a new run must not change older runs"
    );
    let new = start(&second, "order", json!({ "n": 2 })).await;
    harness.advance(secs(60)).await;
    assert_eq!(journal.take(), ["1:1:0", "2:2:1", "2:2:2"]);
    assert_eq!(journal.most("order"), 1);
    let ending = second.ended(old[0]).await.unwrap().ending;
    let Ending::Cancelled { reason, by: Some(_) } = ending else { panic!("{ending:?}") };
    assert_eq!(reason, "superseded by version 2");
    assert_eq!(harness.completed(&second, new).await, json!([2, 2]));
}

/// spec B153, B154, N48: older runs finish first, including queued and sleeping ones. Then the
/// newer run starts by itself.
pub(crate) async fn drain_lets_older_runs_finish(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let handoff = Handoff::singleton(OnNewVersion::Drain);
    let old = [json!({ "n": 0, "nap": 30 }), json!({ "n": 1 })];
    let (_first, second, _) = two_versions(harness, &journal, &handoff, &old).await;
    let new = verdict(&second, "order", json!({ "n": 2 })).await;
    assert!(matches!(&new, Verdict::Queued { by, .. } if by.control == "handoff"), "{new:?}");
    harness.advance(secs(120)).await;
    let noted = journal.take_times();
    let lines: Vec<&str> = noted.iter().map(|(_, line)| line.as_str()).collect();
    assert_eq!(lines, ["1:1:0", "1:1:1", "2:2:2"]);
    assert!(
        noted[1].0 >= 40_000,
        "the new run started before the sleeping run had ended: {noted:?}"
    );
}

/// spec B156: with `coexist`, each version is counted separately.
pub(crate) async fn coexisting_versions_are_counted_apart(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let handoff = Handoff::singleton(OnNewVersion::Coexist);
    let (_first, second, _) = two_versions(harness, &journal, &handoff, &[json!({ "n": 0 })]).await;
    let new = verdict(&second, "order", json!({ "n": 1 })).await;
    assert_eq!(new.outcome(), "started");
    assert_eq!(verdict(&second, "order", json!({ "n": 2 })).await.outcome(), "queued");
    harness.advance(secs(2)).await;
    assert_eq!(journal.inside("order"), 2, "one run of each version must execute");
    harness.advance(secs(60)).await;
    assert_eq!(journal.take(), ["1:1:0", "2:2:1", "2:2:2"]);
    assert_eq!(journal.most("order"), 2);
}

/// spec B144, B147, B148, B155, N46: a keyed handoff applies to each key value separately. An event
/// without the key is refused.
pub(crate) async fn a_keyed_handover_is_per_key(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let user = |n: u32, id: Value| json!({ "n": n, "user": { "id": id } });
    let handoff = Handoff::keyed("user.id", OnNewVersion::Drain);
    let old = [user(0, json!(1)), user(1, json!(2))];
    let (_first, second, _) = two_versions(harness, &journal, &handoff, &old).await;
    assert_eq!(
        journal.take(),
        ["1:1:0", "1:1:1"],
        "runs with different key values must execute at the same time"
    );
    assert_eq!(verdict(&second, "order", user(2, json!(1))).await.outcome(), "queued");
    assert_eq!(verdict(&second, "order", user(3, json!(3))).await.outcome(), "started");
    for none in [json!(null), json!({}), json!([1])] {
        let answer = verdict(&second, "order", user(9, none)).await.to_value();
        assert_eq!(
            (&answer["outcome"], &answer["control"]),
            (&json!("rejected"), &json!("handoff"))
        );
        assert!(answer["error"].as_str().unwrap_or_default().contains("user.id"), "{answer}");
    }
    harness.advance(secs(5)).await;
    assert_eq!(
        journal.take(),
        ["2:2:3"],
        "an older run with another key must not block the new one"
    );
    harness.advance(secs(60)).await;
    assert_eq!(journal.take(), ["2:2:2"]);
}

/// spec B161: the handoff also applies to a run that is called by another run, and to a request.
pub(crate) async fn every_way_in_meets_the_handoff(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let handoff = Handoff::singleton(OnNewVersion::Drain);
    let parent = Workflow::new("parent", |ctx: Ctx, _: Value| async move {
        ctx.invoke::<_, Value>("call", "order", json!({ "n": 1 })).await
    });
    let say = |version: u32| {
        let journal = journal.clone();
        let say = Action::new("say", move |ctx: Ctx, _: Value| {
            let journal = journal.clone();
            async move {
                journal.work("say", format!("say:{}", ctx.version()), secs(10)).await;
                Ok(())
            }
        });
        let handoff = Handoff::singleton(OnNewVersion::Supersede);
        Flow::new("chat").action(say.version(version).handoff(handoff))
    };
    let order = |code| order(&journal, code, secs(10)).handoff(handoff.clone());
    let first = sharing(harness).workflow(order(1)).flow(say(1)).start().await.unwrap();
    start(&first, "order", json!({ "n": 0 })).await;
    first.dispatch(new_request("chat", "say", json!({})).unwrap()).await.unwrap();
    harness.advance(secs(1)).await;
    let second = sharing(harness).workflow(order(2)).flow(say(2)).workflow(parent);
    let second = second.start().await.unwrap();
    start(&second, "parent", json!({})).await;
    let said = second.dispatch(new_request("chat", "say", json!({})).unwrap()).await.unwrap();
    assert_eq!(said.verdict.outcome(), "replaced");
    harness.advance(secs(5)).await;
    assert_eq!(
        journal.take(),
        ["1:1:0", "say:1", "say:2"],
        "the called run must wait for the older run"
    );
    harness.advance(secs(60)).await;
    assert_eq!(journal.take(), ["2:2:1"]);
    assert_eq!(states(harness, "parent").await, ["completed"]);
    assert_eq!(states(harness, "chat/say").await, ["cancelled", "completed"]);
}
