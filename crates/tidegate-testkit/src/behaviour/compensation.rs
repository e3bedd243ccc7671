//! Compensation: a separate run undoes the registered steps of a run that ended without success.
//! After a failure, the failure handler runs.

use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Command},
    definition::{Definition, OnFailure},
    flow::Verdict,
    id::RunId,
    row::{Class, Ending, Phase, Purpose, RunError, StepKind},
    run::record::{NewSend, NewStep, Record, Recorded, Then},
};
use tidegate_store::why;

use crate::world::{World, event, payload, replaced};

/// Default of `compensateTimeoutMs`: how long a new run waits for a compensation.
const MINUTE_MS: u64 = 60_000;

fn single() -> Value {
    json!({ "name": "order", "singleton": { "key": "id" } })
}

/// spec compensation: a failure, cancel, replacement or timeout is followed by a compensation, in
/// the transaction that ends the run. Success is not, and neither is a run without registered
/// compensations.
pub async fn whatever_ends_a_run_but_success_is_followed_by_its_undoing(world: &World) {
    let definition =
        json!({ "name": "order", "singleton": { "key": "id" }, "timeoutMs": 1_000_000 });
    world.define(definition).await;
    for end in ["fail", "cancel", "replace", "time out", "complete"] {
        let run = world.drive_with_undo("order", json!({ "id": end })).await;
        let bare = world.send_for_run("order", json!({ "id": format!("{end}, bare") })).await;
        let bare = world.lease_all().await.into_iter().find(|run| run.id == bare).unwrap();
        match end {
            "fail" => world.fail(&run).await,
            "complete" => world.complete(&run).await,
            _ => {
                world.sleep(&run, "nap", 2_000_000).await;
                match end {
                    "cancel" => drop(world.cancel(run.id).await.unwrap()),
                    "replace" => drop(world.send("order", json!({ "id": end })).await),
                    _ => world.tick(1_000_000).await,
                }
            }
        }
        if world.live(bare.id).await.is_some_and(|run| run.phase == Phase::Driven) {
            world.fail(&bare).await;
        }
        assert!(world.live_for(Purpose::Compensates(bare.id)).await.is_empty(), "{end}");
        let undo = world.live_for(Purpose::Compensates(run.id)).await;
        let [undo] = &undo[..] else {
            assert_eq!((undo.len(), end), (0, "complete"));
            continue;
        };
        assert_ne!(end, "complete");
        assert_eq!((undo.phase, undo.version, undo.source), (Phase::Ready, 1, run.source), "{end}");
        assert_eq!(undo.lane, run.lane, "{end}");
        world.check_holds().await;
        world.drain().await;
    }
}

/// A repeated report registers its compensations only once, and one report may register several.
pub async fn a_compensation_counts_once(world: &World) {
    world.define(single()).await;
    let run = world.drive_with_undo("order", json!({})).await;
    world.register(&run, &["undo", "undo more"]).await;
    world.register(&run, &["undo more"]).await;
    assert_eq!(world.live(run.id).await.unwrap().compensations, 2);
    world.fail(&run).await;
    world.undo_of(run.id).await;
    assert_eq!(
        world.steps_in_order(run.id).await,
        ["undo", "undo more"],
        "the compensation of the newest step must be first"
    );
}

/// spec compensation, G7: if the old run is being driven, its compensation begins when its worker
/// has stopped or is dead. Before that, the step to undo may still be executing.
pub async fn the_undoing_of_a_driven_run_waits_for_its_stop(world: &World) {
    world.define(single()).await;
    for dead in [false, true] {
        let engine = world.engine(if dead { 2 } else { 1 });
        let run = engine.drive_with_undo("order", json!({ "id": 1 })).await;
        world.cancel(run.id).await.unwrap();
        let new = world.send_for_run("order", json!({ "id": 1 })).await;
        assert!(world.live_for(Purpose::Compensates(run.id)).await.is_empty());
        assert!(
            world.lease_all().await.is_empty(),
            "the compensation began before the worker stopped"
        );
        if dead {
            assert_eq!(world.lose(2).await, 1);
        } else {
            world.stopped(&run).await;
            world.stopped(&run).await;
        }
        let undo = world.lease_one().await;
        assert_eq!(undo.purpose, Purpose::Compensates(run.id));
        world.check_holds().await;
        world.complete(&undo).await;
        assert_eq!(world.drain().await, [new]);
    }
}

/// spec compensation: a run that replaces another one waits for the compensation of that run, and
/// `why` says so. A later arrival replaces the waiting run, never the compensation.
pub async fn who_replaces_a_run_waits_for_its_undoing(world: &World) {
    world.define(single()).await;
    let run = world.drive_with_undo("order", json!({})).await;
    world.sleep(&run, "nap", 1000).await;
    let (first, old) = replaced(&world.send("order", json!({})).await);
    assert_eq!(old, run.id);
    let undo = world.undo_of(run.id).await;
    let why = why(&*world.store, &world.ws, first).await.unwrap().unwrap();
    let gate = &why.gates[0];
    assert_eq!((&gate.holders[..], &gate.draining[..]), (&[undo.id][..], &[][..]));
    let latest = world.now().plus_ms(MINUTE_MS).rfc3339();
    let frees =
        format!("the end of {}, which compensates {}, or {latest} at the latest", undo.id, old);
    assert_eq!(gate.frees, frees);
    let (second, old) = replaced(&world.send("order", json!({})).await);
    assert_eq!(old, first, "the one in line");
    let undo = world.lease_one().await;
    world.check_holds().await;
    world.complete(&undo).await;
    assert_eq!(world.lease_one().await.id, second);
    assert_eq!(world.state(first).await, "cancelled");
    world.check_holds().await;
}

/// spec compensation: under `restart`, a new run in a session waits for the compensation, too;
/// other requests keep their positions behind it.
pub async fn a_session_waits_for_the_undoing(world: &World) {
    let actions =
        json!({ "respond": { "concurrency": "restart" }, "note": { "concurrency": "queue" } });
    world.define_flow(json!({ "name": "chat", "actions": actions })).await;
    let old = world.call_for_run("chat", "respond", "s").await;
    let run = world.lease_one().await;
    world.register(&run, &["undo"]).await;
    let queued = world.call_for_run("chat", "note", "s").await;
    let new = world.call_for_run("chat", "respond", "s").await;
    world.stopped(&run).await;
    let undo = world.lease_one().await;
    assert_eq!(undo.purpose, Purpose::Compensates(old));
    world.complete(&undo).await;
    assert_eq!(
        world.drain().await,
        [new, queued],
        "the new run must be first, then the queued requests"
    );
    world.check_holds().await;
}

/// spec compensation: a new run waits for a compensation for at most `compensateTimeoutMs`, 60 s by
/// default. Then the compensation, in any state, loses the gate and continues.
pub async fn a_newcomer_waits_no_longer_than_the_time_out(world: &World) {
    let given = json!({ "name": "order", "singleton": {}, "compensateTimeoutMs": 500 });
    for (definition, ms) in [(single(), MINUTE_MS), (given, 500)] {
        for place in ["ready", "driven", "waiting", "paused"] {
            let name = format!("{place}{ms}");
            let mut definition = definition.clone();
            definition["name"] = json!(name);
            world.define(definition).await;
            let run = world.drive_with_undo(&name, json!({})).await;
            let new = world.send_for_run(&name, json!({})).await;
            world.stopped(&run).await;
            let mut undo = world.undo_of(run.id).await;
            if ["driven", "waiting"].contains(&place) {
                undo = world.lease_one().await;
            }
            match place {
                "waiting" => world.sleep(&undo, "nap", 10_000_000).await,
                "paused" => drop(world.pause(undo.id).await.unwrap()),
                _ => {}
            }
            world.tick(ms - 1).await;
            assert_eq!(world.state(new).await, "queued", "{name}");
            assert!(world.lease_all().await.iter().all(|run| run.id == undo.id), "{name}");
            world.tick(1).await;
            world.check_holds().await;
            let ready = world.lease_all().await;
            assert!(ready.iter().any(|run| run.id == new), "{name}: {ready:?}");
            assert_eq!(
                world.undo_of(run.id).await.id,
                undo.id,
                "{name}: the compensation did not continue"
            );
            for run in ready {
                world.complete(&run).await;
            }
            world.tick(20_000_000).await;
            if place == "paused" {
                world.resume(undo.id).await.unwrap();
            }
            if let Some(undo) = world.live(undo.id).await.filter(|undo| undo.owner.is_some()) {
                world.complete(&undo).await;
            }
            world.drain().await;
            assert_eq!(world.state(undo.id).await, "completed", "{name}");
            world.check_holds().await;
        }
    }
}

/// spec G1: a compensation keeps the holds of its run with the span `run`; holds with the span
/// `executing` are freed at once.
pub async fn the_undoing_keeps_run_gates_and_no_others(world: &World) {
    let limits = json!([{ "limit": 1 }, { "limit": 1, "span": "run", "key": "id" }]);
    world.define(json!({ "name": "order", "concurrency": limits })).await;
    let run = world.drive_with_undo("order", json!({ "id": 1 })).await;
    let same = world.send_for_run("order", json!({ "id": 1 })).await;
    let other = world.send_for_run("order", json!({ "id": 2 })).await;
    world.fail(&run).await;
    assert_eq!(
        world.inside("order", Class::RunLimit, "1").await,
        1,
        "the run's hold must pass to its compensation"
    );
    let mut leased = world.lease_all().await;
    leased.sort_by_key(|run| run.purpose == Purpose::Ordinary);
    let ids: Vec<_> = leased.iter().map(|run| run.id).collect();
    assert_eq!(
        ids,
        [world.undo_of(run.id).await.id, other],
        "a compensation must need no executing slot"
    );
    world.check_holds().await;
    world.complete(&leased[1]).await;
    assert_eq!(world.state(same).await, "queued");
    world.complete(&leased[0]).await;
    assert_eq!(world.drain().await, [same]);
}

/// A compensation that fails, or ends in another way, is not compensated and starts no follow-up
/// run.
pub async fn what_undoes_is_not_undone(world: &World) {
    world.define(json!({ "name": "order", "onFailure": true })).await;
    for end in ["fail", "cancel"] {
        let run = world.drive_with_undo("order", json!({})).await;
        world.cancel(run.id).await.unwrap();
        world.stopped(&run).await;
        let undo = world.lease_one().await;
        world.register(&undo, &["undo the undoing"]).await;
        if end == "fail" {
            world.fail(&undo).await;
        } else {
            world.cancel(undo.id).await.unwrap();
            world.stopped(&undo).await;
        }
        assert_eq!(world.alive("order").await, 0, "{end}");
    }
}

/// spec compensation: while a key is held by a compensation only, an arrival that singleton would
/// skip is queued instead.
pub async fn nobody_is_skipped_for_an_undoing(world: &World) {
    let definition = json!({ "name": "order", "singleton": { "mode": "skip" } });
    world.define(definition).await;
    let run = world.drive_with_undo("order", json!({})).await;
    world.fail(&run).await;
    let verdict = world.send("order", json!({})).await;
    assert!(matches!(verdict, Verdict::Queued { .. }), "{verdict:?}");
    let undo = world.lease_one().await;
    world.complete(&undo).await;
    assert_eq!(Some(world.lease_one().await.id), verdict.run());
    world.check_holds().await;
}

/// Handoff: a newer version waits for the compensation of the run that it supersedes; a release
/// never supersedes a compensation.
pub async fn a_superseding_version_waits_for_the_undoing(world: &World) {
    let handoff = json!({ "type": "singleton", "onNewVersion": "supersede" });
    let version =
        |n: u32| json!({ "name": "order", "version": n, "handoff": handoff, "singleton": {} });
    world.define(version(1)).await;
    let run = world.drive_with_undo("order", json!({})).await;
    world.sleep(&run, "nap", 1000).await;
    world.define(version(2)).await;
    let new = world.send_for_run("order", json!({})).await;
    assert_eq!(world.state(run.id).await, "cancelled");
    let undo = world.lease_one().await;
    assert_eq!((undo.purpose, undo.version), (Purpose::Compensates(run.id), 1));
    world.tick(MINUTE_MS).await;
    world.complete(&world.lease_one().await).await;
    assert_eq!(world.state(new).await, "completed");
    world.define(version(3)).await;
    let third = world.send_for_run("order", json!({})).await;
    assert_eq!(world.state(undo.id).await, "running", "a release superseded the compensation");
    assert_eq!(world.lease_one().await.id, third);
    world.check_holds().await;
}

/// A run may send an event that replaces the run itself. Compensations that were registered in the
/// same report are executed.
pub async fn a_run_that_replaces_itself_is_undone(world: &World) {
    world.define(single()).await;
    let id = world.send_for_run("order", json!({})).await;
    let run = world.lease_one().await;
    let undo = NewStep {
        id: "undo".to_owned(),
        kind: StepKind::Compensate,
        result: Ok(payload(&Value::Null)),
    };
    let send = NewSend::event("send", event("order", &json!({})));
    let (engine, fence) = (run.owner.unwrap(), run.fence);
    let (steps, sends, then) = (vec![undo], vec![send], Then::Continue);
    let report = Record { run: id.seq, engine, fence, steps, sends, then, ..Record::default() };
    let answer = world.run(Command::Record { known: Box::new(run.clone()), report }).await;
    assert_eq!(answer, Ok(Answer::Recorded(Recorded::Stop)));
    world.stopped(&run).await;
    world.undo_of(id).await;
    world.check_holds().await;
}

/// spec N20: a failed run is followed by its failure handler, once. Cancelled and completed runs
/// are not, and a handler that fails has no follow-up run.
pub async fn a_failure_is_handled_once(world: &World) {
    let limit = json!({ "limit": 1, "span": "run" });
    world.define(json!({ "name": "order", "onFailure": true, "concurrency": limit })).await;
    for end in ["fail", "cancel", "complete"] {
        let id = world.send_for_run("order", json!({ "end": end })).await;
        let run = world.lease_one().await;
        match end {
            "fail" => world.fail(&run).await,
            "cancel" => {
                world.cancel(id).await.unwrap();
                world.stopped(&run).await;
            }
            _ => world.complete(&run).await,
        }
        let next = world.send_for_run("order", json!({ "end": "next" })).await;
        let handlers = world.live_for(Purpose::OnFailure(id)).await;
        let expected = usize::from(end == "fail");
        assert_eq!(handlers.len(), expected, "{end}");
        let ready = world.lease_all().await;
        assert!(
            ready.iter().any(|run| run.id == next),
            "{end}: the failure handler blocks the next run"
        );
        for run in ready {
            assert!(
                run.purpose == Purpose::Ordinary
                    || run.source.first() == handlers[0].source.first()
            );
            if run.id == next { world.complete(&run).await } else { world.fail(&run).await }
        }
        assert_eq!(world.alive("order").await, 0, "{end}");
    }
}

/// A failure has a follow-up run only if a handler exists: code, or a URL for failures. A stored
/// definition with a URL, but without a URL for failures, has none.
pub async fn a_failure_is_followed_where_somebody_handles_it(world: &World) {
    let url = Some("http://127.0.0.1:9/work".to_owned());
    let called = || OnFailure::Call { url: "http://127.0.0.1:9/failed".to_owned() };
    let definitions = [
        ("plain", None, OnFailure::Nobody, 0),
        ("code", None, OnFailure::Code, 1),
        ("service", url.clone(), called(), 1),
        ("stored", url, OnFailure::Code, 0),
    ];
    for (name, url, on_failure, handlers) in definitions {
        let workflow = Definition { url, on_failure, ..Definition::new("default", name) };
        world.try_register(workflow).await.unwrap();
        let id = world.send_for_run(name, json!({})).await;
        let run = world.engine(1).lease_one().await;
        world.fail(&run).await;
        assert_eq!(world.live_for(Purpose::OnFailure(id)).await.len(), handlers, "{name}");
        for run in world.lease_all().await {
            world.complete(&run).await;
        }
        assert_eq!(world.alive(name).await, 0, "{name}");
    }
}

/// spec steps: a parent gets the failure of its child at once, not after the child's compensation.
pub async fn a_parent_does_not_wait_for_the_undoing(world: &World) {
    world.define(json!({ "name": "parent" })).await;
    world.define(single()).await;
    let parent = world.send_for_run("parent", json!({})).await;
    world.invoke(&world.lease_one().await, "child", "order", json!({})).await;
    let child = world.lease_one().await;
    world.register(&child, &["undo"]).await;
    world.fail(&child).await;
    let answer = world.step_of(parent, "child").await.unwrap().result;
    assert_eq!(answer.unwrap_err().code, "Boom");
    let undo = world.undo_of(child.id).await;
    assert!(undo.parent.is_none());
    let ready: Vec<RunId> = world.lease_all().await.iter().map(|run| run.id).collect();
    assert!(ready.contains(&parent) && ready.contains(&undo.id), "{ready:?}");
}

/// spec explained: an ended compensation names the run that it compensated, and that run keeps its
/// own error.
pub async fn an_ended_run_says_why_there_was_one(world: &World) {
    world.define(single()).await;
    let run = world.drive_with_undo("order", json!({})).await;
    world.fail(&run).await;
    let undo = world.lease_one().await;
    world.complete(&undo).await;
    let ended = world.ended(undo.id).await.unwrap();
    assert_eq!((ended.purpose, ended.source), (Purpose::Compensates(run.id), run.source));
    let failed = world.ended(run.id).await.unwrap();
    assert_eq!(failed.purpose, Purpose::Ordinary);
    let error = RunError::new("Boom", "boom");
    assert_eq!(failed.ending, Ending::Failed { error });
}
