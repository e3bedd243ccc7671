//! Holds: who holds a gate after a run sleeps, waits, ends, is cancelled, or loses its worker.

use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Command, Refusal},
    flow::Verdict,
    row::{Class, RowKey, Run},
    run::record::Then,
};

use crate::{
    sample::LEASE_MS,
    world::{World, payload},
};

/// Builds a workflow with at most one driven run.
fn one_at_a_time() -> Value {
    json!({ "name": "sync", "concurrency": { "limit": 1 } })
}

/// spec G2, G3, B61, B64: a sleeping run frees its slot; when it wakes, it is queued for the slot
/// again, with its old rank.
pub async fn a_sleeping_run_holds_no_slot_and_queues_again(world: &World) {
    world.define(one_at_a_time()).await;
    world.send("sync", json!({ "n": 1 })).await;
    world.send("sync", json!({ "n": 2 })).await;
    world.send("sync", json!({ "n": 3 })).await;
    let first = world.lease_one().await;
    world.sleep(&first, "nap", 1000).await;
    let second = world.lease_one().await;
    assert_ne!(second.id, first.id);
    world.tick(1000).await;
    assert_eq!(world.state(first.id).await, "queued", "the woken run must be queued for its slot");
    assert!(world.lease_all().await.is_empty());
    world.complete(&second).await;
    assert_eq!(
        world.lease_one().await.id,
        first.id,
        "the first run is older than the third and must be next"
    );
    world.check_holds().await;
}

/// spec G2, G3, G4, B61–B64: when a run waits, for whatever, its slot is handed on in the same
/// commit; when it wakes, it is queued with its old rank.
pub async fn whatever_a_run_waits_for_it_holds_no_slot(world: &World) {
    world.define(one_at_a_time()).await;
    world.define(json!({ "name": "child" })).await;
    for what in ["time", "event", "retry", "child", "signal", "pause"] {
        let first = world.send_for_run("sync", json!({})).await;
        let second = world.send_for_run("sync", json!({})).await;
        let third = world.send_for_run("sync", json!({})).await;
        let run = world.lease_one().await;
        assert_eq!(run.id, first, "{what}");
        match what {
            "time" => world.sleep(&run, "wait", 1000).await,
            "event" => world.wait_for(&run, "wait", "go", &[]).await,
            "retry" => world.back_off(&run, "wait", 1000).await,
            "child" => world.invoke(&run, "wait", "child", json!({})).await,
            "signal" => world.wait_for_signal(&run, "wait", "go").await,
            _ => {
                world.pause(run.id).await.unwrap();
                world.report(&run, Vec::new(), Then::Continue).await.unwrap();
            }
        }
        let child = usize::from(what == "child");
        let mut leased = world.lease_all().await;
        assert_eq!(leased.len(), 1 + child, "{what}: the slot was handed on");
        leased.sort_by_key(|run| run.workflow != "child");
        let next = leased.pop().unwrap();
        assert_eq!(next.id, second, "{what}");
        match what {
            "time" | "retry" => world.tick(1000).await,
            "event" => assert_eq!(world.post("go", json!({})).await.woke, 1),
            "child" => world.complete(&leased[0]).await,
            "signal" => drop(world.signal(first, "go", json!({})).await.unwrap()),
            _ => drop(world.resume(first).await.unwrap()),
        }
        assert_eq!(
            world.state(first).await,
            "queued",
            "{what}: the woken run must be queued for its slot"
        );
        assert!(world.lease_all().await.is_empty(), "{what}: a run was leased over the limit");
        world.complete(&next).await;
        let woken = world.lease_one().await;
        assert_eq!(
            woken.id, first,
            "{what}: the woken run is older than the third and must be next"
        );
        world.complete(&woken).await;
        assert_eq!(world.drain().await, [third], "{what}");
        world.check_holds().await;
    }
}

/// spec G7, B69: however a run ends, its slot is handed on in the same commit.
pub async fn however_a_run_ends_its_slot_is_free_at_once(world: &World) {
    world.define(one_at_a_time()).await;
    for end in ["complete", "fail", "cancel while ready", "cancel while asleep"] {
        let first = world.send_for_run("sync", json!({})).await;
        let second = world.send_for_run("sync", json!({})).await;
        match end {
            "complete" => world.complete(&world.lease_one().await).await,
            "fail" => world.fail(&world.lease_one().await).await,
            "cancel while ready" => drop(world.cancel(first).await.unwrap()),
            _ => {
                world.sleep(&world.lease_one().await, "nap", 1000).await;
                world.cancel(first).await.unwrap();
            }
        }
        let next = world.lease_one().await;
        assert_eq!(next.id, second, "{end}");
        world.complete(&next).await;
        world.tick(2000).await;
        assert_eq!(world.alive("sync").await, 0, "{end}");
        world.check_holds().await;
    }
}

/// spec G7, B69: a driven run that is cancelled ends at once and can write nothing more; its slot
/// is freed when its worker has stopped.
pub async fn a_run_cancelled_while_driven_keeps_its_slot_until_it_has_stopped(world: &World) {
    world.define(one_at_a_time()).await;
    world.send("sync", json!({})).await;
    let next = world.send_for_run("sync", json!({})).await;
    let run = world.lease_one().await;
    world.cancel(run.id).await.unwrap();
    assert_eq!(world.state(run.id).await, "cancelled");
    let late = world.report(&run, Vec::new(), Then::Complete(payload(&Value::Null))).await;
    assert!(matches!(late, Err(Refusal::Fenced { .. })), "{late:?}");
    world.tick(3_600_000).await;
    assert!(world.lease_all().await.is_empty(), "the slot was freed before the worker stopped");
    assert_eq!(world.inside("sync", Class::Whole, "(whole)").await, 1);
    // Only the worker with the current fence can report the stop.
    world.stopped(&Run { fence: run.fence - 1, ..run.clone() }).await;
    world.stopped(&Run { owner: Some(99), ..run.clone() }).await;
    assert!(world.lease_all().await.is_empty(), "a stranger's word");
    world.stopped(&run).await;
    assert_eq!(world.lease_one().await.id, next);
    assert_eq!(world.state(run.id).await, "cancelled");
    world.check_holds().await;
}

/// spec G7: the slot of a run that was cancelled while driven is also freed when the lease of its
/// worker ends.
pub async fn a_run_cancelled_while_driven_frees_its_slot_with_its_worker(world: &World) {
    world.define(one_at_a_time()).await;
    world.send("sync", json!({})).await;
    let next = world.send_for_run("sync", json!({})).await;
    let lost = world.engine(2);
    let run = lost.lease_one().await;
    world.cancel(run.id).await.unwrap();
    assert!(world.lease_all().await.is_empty());
    assert_eq!(world.lose(2).await, 1);
    assert_eq!(world.lease_one().await.id, next);
    assert_eq!(world.state(run.id).await, "cancelled");
    assert!(
        world.row(RowKey::Run(run.id.seq)).await.is_none(),
        "the row of the cancelled run was not deleted"
    );
    world.check_holds().await;
}

/// spec G7, replace: a run that replaces a driven run starts when the worker of that run has
/// stopped.
pub async fn who_replaces_a_driven_run_waits_for_its_stop(world: &World) {
    world.define(json!({ "name": "sync", "singleton": {} })).await;
    world.send("sync", json!({ "n": 1 })).await;
    let old = world.lease_one().await;
    let new = world.send("sync", json!({ "n": 2 })).await;
    assert!(matches!(new, Verdict::Replaced { replaced, .. } if replaced == old.id), "{new:?}");
    assert_eq!(world.state(old.id).await, "cancelled");
    assert!(world.lease_all().await.is_empty());
    world.stopped(&old).await;
    assert_eq!(Some(world.lease_one().await.id), new.run());
    world.check_holds().await;
}

/// spec G6, B68: all holds of a dead engine are freed when the engine is marked dead, and not
/// before.
pub async fn a_dead_engines_slots_come_back_when_it_is_found_dead(world: &World) {
    world.define(json!({ "name": "sync", "concurrency": { "limit": 2 } })).await;
    let mut sent = Vec::new();
    for n in 0..3 {
        sent.push(world.send_for_run("sync", json!({ "n": n })).await);
    }
    let lost = world.engine(2);
    assert!(world.store.heartbeat(2, LEASE_MS).await.unwrap());
    let runs = lost.lease_all().await;
    assert_eq!(runs.len(), 2);
    let reap = |run: &Run| Command::Reap {
        known: Box::new(run.clone()),
        engine: 2,
        max_deaths: tidegate_core::run::sweep::MAX_DEATHS,
    };
    world.tick(3_600_000).await;
    assert_eq!(world.run(reap(&runs[0])).await, Ok(Answer::Changed(false)), "it is not dead");
    assert!(world.store.heartbeat(2, LEASE_MS).await.unwrap());
    let early = world.run(Command::MarkDead { engine: 2, beat: 1 }).await;
    assert_eq!(
        early,
        Ok(Answer::Changed(false)),
        "the engine was marked dead although it sent a heartbeat"
    );
    assert!(world.lease_all().await.is_empty(), "no sooner");
    assert_eq!(world.lose(2).await, 2);
    assert!(
        !world.store.heartbeat(2, LEASE_MS).await.unwrap(),
        "the heartbeat of a dead engine must be refused"
    );
    let late = lost.report(&runs[0], Vec::new(), Then::Continue).await;
    assert!(matches!(late, Err(Refusal::Fenced { .. })), "{late:?}");
    let mut again = world.lease_all().await;
    assert_eq!(again.iter().map(|run| run.id).collect::<Vec<_>>(), sent[..2], "by rank");
    assert!(again.iter().all(|run| run.fence == 2));
    world.complete(&again.remove(0)).await;
    assert_eq!(world.lease_one().await.id, sent[2], "not never");
    world.check_holds().await;
}

/// spec G4, G6: a run that lost its worker is queued by its rank like every other run.
pub async fn a_run_that_lost_its_worker_queues_by_its_rank(world: &World) {
    world.define(one_at_a_time()).await;
    let oldest = world.send_for_run("sync", json!({})).await;
    world.sleep(&world.lease_one().await, "nap", 1000).await;
    let lost = world.send_for_run("sync", json!({})).await;
    let youngest = world.send_for_run("sync", json!({})).await;
    assert_eq!(world.engine(2).lease_one().await.id, lost);
    world.tick(1000).await;
    world.lose(2).await;
    assert_eq!(world.drain().await, [oldest, lost, youngest]);
    world.check_holds().await;
}

/// spec G8, N40: a run whose gate is held by one of its ancestors is refused at once, whatever the
/// control. No run is queued and none is replaced.
pub async fn a_gate_that_an_ancestor_keeps_refuses_at_once(world: &World) {
    let gates = [
        json!({ "concurrency": { "limit": 1, "span": "run" } }),
        json!({ "singleton": { "mode": "skip" } }),
        json!({ "singleton": { "mode": "cancel" } }),
        json!({ "handoff": { "type": "singleton", "onNewVersion": "supersede" } }),
    ];
    world.define(json!({ "name": "between" })).await;
    for (n, mut gate) in gates.into_iter().enumerate() {
        let name = format!("w{n}");
        gate["name"] = json!(name);
        world.define(gate.clone()).await;
        let top = world.send_for_run(&name, json!({})).await;
        let run = world.lease_one().await;
        world.invoke(&run, "self", &name, json!({})).await;
        let run = world.lease_one().await;
        assert_eq!(run.id, top, "{gate}: the calling run did not continue at once");
        let fault = world.step_of(top, "self").await.unwrap().result.unwrap_err();
        assert_eq!(fault.code, "HeldByAncestor", "{gate}");
        world.invoke(&run, "deep", "between", json!({})).await;
        let between = world.lease_one().await;
        world.invoke(&between, "up", &name, json!({})).await;
        let between = world.lease_one().await;
        let fault = world.step_of(between.id, "up").await.unwrap().result.unwrap_err();
        assert_eq!(fault.code, "HeldByAncestor", "{gate}: wrong error through two calls");
        assert_eq!(world.state(top).await, "waiting", "{gate}: the ancestor was replaced");
        world.complete(&between).await;
        world.complete(&world.lease_one().await).await;
        assert_eq!(world.alive(&name).await, 0);
        world.check_holds().await;
    }
}

/// spec G2, G8: a caller that waits for its child frees its executing slot, so that the child can
/// use it.
pub async fn a_caller_that_waits_leaves_its_slot_to_its_child(world: &World) {
    world.define(one_at_a_time()).await;
    let top = world.send_for_run("sync", json!({})).await;
    world.invoke(&world.lease_one().await, "self", "sync", json!({})).await;
    let child = world.lease_one().await;
    assert_ne!(child.id, top);
    world.complete(&child).await;
    let run = world.lease_one().await;
    assert_eq!(run.id, top);
    assert!(world.step_of(top, "self").await.unwrap().result.is_ok());
    world.check_holds().await;
}

/// spec G8, A5: if the gate is held by a run that is no ancestor, the child is queued, or refused
/// with the control and the holder.
pub async fn a_gate_that_a_stranger_keeps_is_waited_for_or_refused(world: &World) {
    world.define(json!({ "name": "caller" })).await;
    world.define(json!({ "name": "waits", "concurrency": { "limit": 1, "span": "run" } })).await;
    world.define(json!({ "name": "skips", "singleton": { "mode": "skip" } })).await;
    let stranger = world.send_for_run("waits", json!({})).await;
    let holder = world.send_for_run("skips", json!({})).await;
    let strangers = world.lease_all().await;
    let caller = world.send_for_run("caller", json!({})).await;
    let run = world.lease_one().await;
    world.invoke(&run, "skips", "skips", json!({})).await;
    let run = world.lease_one().await;
    let fault = world.step_of(caller, "skips").await.unwrap().result.unwrap_err();
    assert_eq!(fault.code, "Refused");
    let said: Value = serde_json::from_str(&fault.message).unwrap();
    assert_eq!((&said["control"], &said["holder"]), (&json!("singleton"), &json!(holder)));
    world.invoke(&run, "waits", "waits", json!({})).await;
    assert!(world.lease_all().await.is_empty(), "the child waits");
    world.complete(strangers.iter().find(|run| run.id == stranger).unwrap()).await;
    let child = world.lease_one().await;
    assert_eq!(child.workflow, "waits");
    world.complete(&child).await;
    assert_eq!(world.lease_one().await.id, caller);
    world.check_holds().await;
}
