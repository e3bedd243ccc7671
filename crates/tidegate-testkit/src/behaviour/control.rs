//! Control: cancel, pause and resume, in every state of a run.

use serde_json::json;
use tidegate_core::{
    command::{Answer, Refusal},
    flow::Verdict,
    id::RunId,
    row::Run,
    run::record::{Recorded, Then},
};
use tidegate_store::{Answered, why};

use crate::{
    worker::{again, for_child, for_event, for_signal},
    world::{World, event, payload},
};

const DONE: Answered = Ok(Answer::Done);

/// States of a run before it has ended.
const PLACES: [&str; 7] = ["line", "throttled", "ready", "driven", "waiting", "paused", "retrying"];

/// Defines a workflow with one slot, a throttle and a singleton by key, and brings a run into this
/// state. Returns the run, and the run that blocks it, if any.
async fn run_in(world: &World, place: &str) -> (RunId, Option<Run>) {
    let throttle = json!({ "limit": 1, "perMs": 1000 });
    let by_key = json!({ "key": "id", "mode": "skip" });
    let definition = json!({
        "name": "order", "singleton": by_key, "concurrency": { "limit": 1 }, "throttle": throttle,
    });
    world.define(definition).await;
    let in_the_way = match place {
        "line" => Some(world.drive("order", json!({ "id": "other" })).await),
        "throttled" => {
            let first = world.drive("order", json!({ "id": "other" })).await;
            world.complete(&first).await;
            None
        }
        _ => None,
    };
    if place == "line" {
        world.pass(1000);
    }
    let run = world.start("order", json!({ "id": "mine" })).await;
    if !["line", "throttled", "ready", "paused"].contains(&place) {
        let leased = world.lease_one().await;
        match place {
            "waiting" => world.suspend(&leased, vec![for_event("paid", "payment")]).await,
            "retrying" => {
                let retry = Then::Suspend(vec![again("pay", 100)]);
                world.report(&leased, Vec::new(), retry).await.expect("the lease is good");
            }
            _ => {}
        }
    }
    if place == "paused" {
        assert_eq!(world.pause(run).await, DONE);
    }
    let expected = match place {
        "line" | "throttled" | "ready" => "queued",
        "driven" => "running",
        "retrying" => "waiting",
        other => other,
    };
    assert_eq!(world.state(run).await, expected, "{place}");
    (run, in_the_way)
}

/// spec N9, B76: cancel works in every state, at once, and a second cancel is refused as ended.
pub async fn cancel_works_wherever_a_run_is(world: &World) {
    for place in PLACES {
        let world = world.in_workspace(place);
        let (run, in_the_way) = run_in(&world, place).await;
        let driven = world.live(run).await.filter(|_| place == "driven");
        assert_eq!(world.cancel(run).await, DONE, "{place}");
        assert_eq!(world.state(run).await, "cancelled", "{place}");
        assert_eq!(world.cancelled(run).await, ("by hand".to_owned(), None));
        let ended = Err(Refusal::Ended { run, state: "cancelled" });
        assert_eq!(world.cancel(run).await, ended, "{place}");
        assert_eq!(world.post("payment", json!({})).await.woke, 0, "{place}");
        // The key of the cancelled run is free: the next run starts when no other gate blocks it.
        let next = world.send("order", json!({ "id": "mine" })).await;
        assert!(next.run().is_some(), "{place}: {next:?}");
        if let Some(driven) = driven {
            assert!(
                world.lease_all().await.is_empty(),
                "the slot was freed before the worker of the cancelled run stopped"
            );
            world.stopped(&driven).await;
        }
        if let Some(other) = in_the_way {
            world.complete(&other).await;
        }
        world.tick(5000).await;
        assert_eq!(world.drain().await, Vec::from_iter(next.run()), "{place}");
        world.check_quiet().await;
    }
}

/// spec N9, N10: every command on an ended run is refused, and the answer says how it ended.
pub async fn an_ended_run_refuses_everything(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let completed = world.drive("order", json!({})).await;
    world.complete(&completed).await;
    let failed = world.drive("order", json!({})).await;
    world.fail(&failed).await;
    let stopping = world.drive("order", json!({})).await;
    assert_eq!(world.cancel(stopping.id).await, DONE);
    let table = [(completed, "completed"), (failed, "failed"), (stopping, "cancelled")];
    for (run, state) in table {
        let ended = || Err(Refusal::Ended { run: run.id, state });
        assert_eq!(world.cancel(run.id).await, ended());
        assert_eq!(world.pause(run.id).await, ended());
        assert_eq!(world.resume(run.id).await, ended());
        assert_eq!(world.signal(run.id, "go", json!({})).await, ended());
        let fenced = Err(Refusal::Fenced { run: run.id.seq, fence: run.fence });
        assert_eq!(
            world.record(&run, "late", json!({})).await,
            fenced,
            "an ended run accepted a report"
        );
        assert_eq!(world.state(run.id).await, state);
    }
}

/// spec N14: a run of another workspace is not found by any command.
pub async fn a_run_of_another_workspace_is_not_found(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let live = world.drive("order", json!({})).await;
    let ended = world.drive("order", json!({})).await;
    world.complete(&ended).await;
    let stranger = world.in_workspace("b");
    let guessed = RunId { seq: live.id.seq, salt: live.id.salt ^ 1 };
    for (world, run) in [(&stranger, live.id), (&stranger, ended.id), (world, guessed)] {
        let no_run = || Err(Refusal::NoRun(run));
        assert_eq!(world.cancel(run).await, no_run());
        assert_eq!(world.pause(run).await, no_run());
        assert_eq!(world.resume(run).await, no_run());
        assert_eq!(world.signal(run, "go", json!({})).await, no_run());
    }
    assert_eq!(
        world.state(live.id).await,
        "running",
        "a command of another workspace changed the run"
    );
    world.record(&live, "go", json!(1)).await.expect("the lease is good");
    // An event of another workspace does not wake the run either.
    world.suspend(&live, vec![for_event("paid", "payment")]).await;
    assert_eq!(stranger.post("payment", json!({})).await.woke, 0);
    assert_eq!(world.post("payment", json!({})).await.woke, 1);
}

/// spec N10, N11: pause works in every state and is idempotent. A paused run keeps its key, but
/// uses no slot and no throttle turn. Resume continues it from its state before the pause, and is
/// idempotent.
pub async fn pause_and_resume_work_wherever_a_run_is(world: &World) {
    for place in PLACES {
        let world = world.in_workspace(place);
        let (run, in_the_way) = run_in(&world, place).await;
        let driven = world.live(run).await.filter(|_| place == "driven");
        for _ in 0..2 {
            assert_eq!(world.pause(run).await, DONE, "{place}");
        }
        if let Some(driven) = driven {
            assert_eq!(
                world.state(run).await,
                "running",
                "a driven run must go on until its next report"
            );
            let answer = world.record(&driven, "pay", json!(1)).await;
            assert_eq!(answer, Ok(Recorded::LetGo), "the boundary");
            assert_eq!(world.pause(run).await, DONE);
        }
        assert_eq!(world.state(run).await, "paused", "{place}");
        if let Some(other) = &in_the_way {
            world.complete(other).await;
        }
        world.tick(10_000).await;
        assert_eq!(world.state(run).await, "paused", "{place}: a due time woke the paused run");
        assert!(world.lease_all().await.is_empty(), "{place}");
        let same = world.send("order", json!({ "id": "mine" })).await;
        assert!(matches!(same, Verdict::Skipped { holder, .. } if holder == run), "{place}");
        let other = world.drive("order", json!({ "id": "other" })).await;
        for _ in 0..2 {
            assert_eq!(world.resume(run).await, DONE, "{place}");
        }
        assert!(
            world.lease_all().await.is_empty(),
            "{place}: a resumed run was leased over the limit"
        );
        world.complete(&other).await;
        world.tick(1000).await;
        if place == "waiting" {
            assert_eq!(
                world.state(run).await,
                "waiting",
                "the resumed run must still wait for its event"
            );
            assert_eq!(world.post("payment", json!({})).await.woke, 1);
        }
        assert_eq!(world.drain().await, [run], "{place}");
        assert_eq!(world.resume(run).await, Err(Refusal::Ended { run, state: "completed" }));
        world.check_quiet().await;
    }
}

/// spec N10: events and signals that arrive during a pause are stored, and the run gets them when
/// it is resumed, even if it also waits for something else.
pub async fn what_comes_during_a_pause_is_kept(world: &World) {
    world.define(json!({ "name": "order" })).await;
    for asked_while in ["waiting", "driven"] {
        let run = world.drive("order", json!({})).await;
        if asked_while == "driven" {
            assert_eq!(world.pause(run.id).await, DONE);
        }
        let waits = vec![for_event("paid", "payment"), for_signal("go", "go"), world.nap("n", 50)];
        world.suspend(&run, waits).await;
        if asked_while == "waiting" {
            assert_eq!(world.pause(run.id).await, DONE);
        }
        assert_eq!(world.state(run.id).await, "paused");
        assert_eq!(world.signal(run.id, "go", json!(1)).await, DONE);
        assert_eq!(world.came_of(run.id, "go").await, Some(Ok("1".to_owned())));
        assert_eq!(world.state(run.id).await, "paused");
        assert_eq!(world.resume(run.id).await, DONE);
        let run = world.lease_one().await;
        // The two other waits of the run are still open, and the time of one of them goes on.
        world.suspend(&run, Vec::new()).await;
        assert_eq!(world.state(run.id).await, "waiting");
        assert_eq!(world.pause(run.id).await, DONE);
        world.tick(100).await;
        assert_eq!(world.came_of(run.id, "n").await, None, "a paused run got an answer of a timer");
        assert_eq!(world.resume(run.id).await, DONE);
        world.tick(0).await;
        assert_eq!(world.came_of(run.id, "n").await, Some(Ok("null".to_owned())));
        let run = world.lease_one().await;
        world.complete(&run).await;
        world.check_quiet().await;
    }
}

/// spec N10: a run that was ready to continue when it was paused continues when it is resumed, even
/// if it also waits for something else.
pub async fn a_run_paused_on_its_way_goes_on(world: &World) {
    for paused_while in ["line", "ready", "driven", "yielding", "inbox", "refused", "lost"] {
        let world = world.in_workspace(paused_while);
        world.define(json!({ "name": "order", "concurrency": { "limit": 1 } })).await;
        let run = world.drive("order", json!({})).await;
        world.suspend(&run, vec![for_event("paid", "payment"), for_signal("go", "go")]).await;
        let other = match paused_while {
            "line" => Some(world.drive("order", json!({})).await),
            _ => None,
        };
        assert_eq!(world.signal(run.id, "go", json!(1)).await, DONE);
        let leased = match paused_while {
            "line" | "ready" => None,
            _ => Some(world.lease_one().await),
        };
        assert_eq!(world.pause(run.id).await, DONE);
        match (paused_while, &leased) {
            ("driven", Some(run)) => drop(world.record(run, "pay", json!(1)).await),
            ("yielding", Some(run)) => drop(world.report(run, Vec::new(), Then::Yield).await),
            ("inbox", Some(run)) => {
                assert_eq!(world.signal(run.id, "more", json!(2)).await, DONE);
                world.suspend(run, vec![for_signal("more", "more")]).await;
            }
            ("lost", Some(_)) => assert_eq!(world.lose(world.engine).await, 1),
            ("refused", Some(run)) => {
                world.suspend(run, vec![for_child("child", "nowhere", &json!({}))]).await;
            }
            _ => {}
        }
        assert_eq!(world.state(run.id).await, "paused", "{paused_while}");
        if let Some(other) = other {
            world.complete(&other).await;
        }
        let other = world.engine(2);
        assert!(other.lease_all().await.is_empty(), "{paused_while}");
        assert_eq!(world.resume(run.id).await, DONE);
        assert_eq!(other.lease_one().await.id, run.id, "{paused_while}");
    }
}

/// spec pause: pause and resume take effect in the order of the commands of a transaction.
pub async fn controls_in_one_transaction_see_each_other(world: &World) {
    use tidegate_core::command::Command;
    world.define(json!({ "name": "order" })).await;
    let run = world.drive("order", json!({})).await;
    world.suspend(&run, vec![for_event("paid", "payment")]).await;
    let (ws, id) = (world.ws.clone(), run.id);
    let answers = world
        .batch(vec![
            Command::Pause { ws: ws.clone(), run: id },
            Command::Post { ws: ws.clone(), events: vec![event("payment", &json!(1))] },
            Command::Resume { ws: ws.clone(), run: id },
            Command::Signal { ws: ws.clone(), run: id, name: "x".into(), data: payload(&json!(1)) },
            Command::Cancel { ws: ws.clone(), run: id, reason: "enough".into() },
            Command::Resume { ws, run: id },
        ])
        .await;
    assert_eq!(answers.last(), Some(&Err(Refusal::Ended { run: id, state: "cancelled" })));
    assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), 1);
    assert_eq!(world.came_of(id, "paid").await, Some(Ok("1".to_owned())));
    world.check_quiet().await;
}

/// spec N10, pause: a run that is paused in the queue of a singleton is still replaced by the next
/// arrival, and stays paused when it enters the gate.
pub async fn a_run_paused_in_line_keeps_its_place(world: &World) {
    world.define(json!({ "name": "one", "singleton": { "key": "id" } })).await;
    let first = world.drive("one", json!({ "id": 1 })).await;
    let second = world.start("one", json!({ "id": 1 })).await;
    assert_eq!(
        world.pause(second).await,
        DONE,
        "the second run must be paused while it waits for the first"
    );
    let third = world.start("one", json!({ "id": 1 })).await;
    assert_eq!(world.state(second).await, "cancelled", "the paused run was not replaced");
    assert_eq!(world.pause(third).await, DONE);
    world.stopped(&first).await;
    assert_eq!(world.state(third).await, "paused");
    assert!(world.lease_all().await.is_empty());
    assert_eq!(world.resume(third).await, DONE);
    assert_eq!(world.drain().await, [third]);
    world.check_quiet().await;
}

/// spec cancel: a run whose window or buffer is still open can be cancelled like any run. Its
/// events get no other run, its keys are free, and later events open a new window or buffer.
pub async fn a_run_that_still_folds_can_be_cancelled(world: &World) {
    let batch = json!({ "maxSize": 3, "timeoutMs": 1000 });
    for definition in [
        json!({ "name": "save", "debounce": { "periodMs": 1000 } }),
        json!({ "name": "index", "batch": batch, "idempotency": { "key": "id" } }),
    ] {
        let name = definition["name"].as_str().unwrap().to_owned();
        world.define(definition).await;
        let run = world.send_for_run(&name, json!({ "id": 1 })).await;
        let unknown = Err(Refusal::NoRun(run));
        assert_eq!(world.in_workspace("other").cancel(run).await, unknown, "{name}");
        assert_eq!(world.cancel(run).await, DONE, "{name}");
        let ended = world.ended(run).await.expect("its id resolves");
        assert_eq!((ended.ending.state(), &ended.workflow), ("cancelled", &name));
        let again = Err(Refusal::Ended { run, state: "cancelled" });
        assert_eq!(world.cancel(run).await, again, "{name}");
        world.tick(5000).await;
        assert!(world.drain().await.is_empty(), "{name}: a run started after the cancel");
        let next = world.send_for_run(&name, json!({ "id": 1 })).await;
        assert_ne!(next, run, "{name}: the event was taken for a repeat");
        world.tick(1000).await;
        assert_eq!(world.drain().await, [next], "{name}");
    }
}

/// spec pause: a paused window or buffer takes more events and does not flush. After resume it
/// flushes at once if its time has come, otherwise at its time. Each full chunk of a buffer can be
/// cancelled separately.
pub async fn a_run_that_still_folds_can_be_paused(world: &World) {
    world.define(json!({ "name": "save", "debounce": { "periodMs": 1000 } })).await;
    let batch = json!({ "maxSize": 2, "timeoutMs": 1000 });
    world.define(json!({ "name": "index", "batch": batch })).await;
    for (name, parts) in [("save", 1), ("index", 3)] {
        let mut runs = vec![world.send_for_run(name, json!({ "n": 0 })).await];
        for _ in 0..2 {
            assert_eq!(world.pause(runs[0]).await, DONE, "{name}: a second pause must succeed");
        }
        let seen = why(&*world.store, &world.ws, runs[0]).await.unwrap().unwrap();
        assert_eq!((seen.state, seen.earliest), ("paused", None), "{}", seen.sentence);
        for n in 1..6 {
            world.tick(1500).await;
            runs.push(world.send_for_run(name, json!({ "n": n })).await);
        }
        runs.dedup();
        assert_eq!(runs.len(), parts, "{name}");
        assert!(world.drain().await.is_empty(), "{name}: it flushed although it is paused");
        if parts > 1 {
            assert_eq!(world.cancel(runs.remove(1)).await, DONE, "{name}: one part");
        }
        world.tick(1500).await;
        assert_eq!(world.resume(runs[0]).await, DONE, "{name}");
        assert_eq!(world.drain().await, runs, "{name}: after resume, the due run did not start");
        let soon = world.send_for_run(name, json!({ "n": 9 })).await;
        assert_eq!(world.pause(soon).await, DONE);
        assert_eq!(world.resume(soon).await, DONE);
        world.tick(999).await;
        assert!(world.drain().await.is_empty(), "{name}: a run started before its time");
        world.tick(1).await;
        assert_eq!(world.drain().await, [soon], "{name}");
    }
}

/// spec pause: if the holder that blocks a window ends while the window is paused, no event is
/// lost.
pub async fn a_held_window_that_is_paused_goes_on_when_it_is_resumed(world: &World) {
    let debounce = json!({ "periodMs": 1000 });
    let one = json!({ "name": "one", "singleton": { "mode": "skip" }, "debounce": debounce });
    world.define(one).await;
    world.send("one", json!({ "n": 0 })).await;
    world.tick(1000).await;
    let inside = world.lease_one().await;
    let held = world.send_for_run("one", json!({ "n": 1 })).await;
    world.tick(1000).await;
    assert_eq!(world.pause(held).await, DONE);
    world.complete(&inside).await;
    world.tick(5000).await;
    assert!(world.drain().await.is_empty(), "it is paused");
    assert_eq!(world.resume(held).await, DONE);
    assert_eq!(world.drain().await, [held]);
}
