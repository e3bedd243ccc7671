//! Explanation of waiting runs (`why`): the sentence and the fields, from the same rows that the
//! gates read.

use serde_json::{Value, json};
use tidegate_core::{
    command::Refusal,
    explain::{Binding, Why},
    id::RunId,
    time::Timestamp,
};
use tidegate_store::why;

use crate::world::{World, replaced, window};

/// Returns the explanation of a run of this workspace.
async fn explain(world: &World, run: RunId) -> Why {
    world.serve().await;
    let why = why(&*world.store, &world.ws, run).await.expect("the store works");
    why.unwrap_or_else(|refusal| panic!("the run was not explained: {refusal}"))
}

/// Returns state, sentence and earliest time of a run that no gate blocks.
async fn ungated(world: &World, run: RunId) -> (&'static str, String, Option<Timestamp>) {
    let why = explain(world, run).await;
    assert_eq!((why.run, why.gates), (run, Vec::new()), "{}", why.sentence);
    (why.state, why.sentence, why.earliest)
}

async fn limited(world: &World, limit: u32) {
    let concurrency = json!([{ "limit": limit, "key": "user" }]);
    world.define(json!({ "name": "job", "concurrency": concurrency })).await;
}

async fn job(world: &World) -> RunId {
    world.send_for_run("job", json!({ "user": "u" })).await
}

fn in_line(limit: u32, holders: &[RunId], place: usize, frees: &str) -> Binding {
    Binding {
        control: "concurrency",
        pool: None,
        key: "u".to_owned(),
        from_data: None,
        adaptive: None,
        steps: Vec::new(),
        overrides: Vec::new(),
        closed: None,
        limit: format!("{limit} at once"),
        full: true,
        cost: None,
        used: None,
        holders: holders.to_vec(),
        draining: Vec::new(),
        stranded: Vec::new(),
        place: Some(place),
        fair: None,
        frees: frees.to_owned(),
        at: None,
    }
}

/// spec explained: the explanation of a queued run names the gate, its holders, the run's position,
/// and what frees a slot.
pub async fn a_run_in_line_names_holders_and_place(world: &World) {
    limited(world, 1).await;
    let (first, second, third) = (job(world).await, job(world).await, job(world).await);
    let frees = format!("the end of {first}");
    for (run, place) in [(second, 1), (third, 2)] {
        let why = explain(world, run).await;
        assert_eq!((why.state, why.earliest), ("queued", None));
        assert_eq!(why.gates, [in_line(1, &[first], place, &frees)]);
        let sentence = format!(
            "it waits for concurrency of u (1 at once), position {place} in the queue; freed by \
             {frees}"
        );
        assert_eq!(why.sentence, sentence);
    }
    world.complete(&world.lease_one().await).await;
    assert_eq!(
        explain(world, third).await.gates[0].place,
        Some(1),
        "the third run did not move to position 1"
    );
    world.check_holds().await;
}

/// spec explained: if a gate has several holders, the explanation says that the end of any of them
/// frees a slot.
pub async fn of_several_holders_any_one_makes_room(world: &World) {
    limited(world, 2).await;
    let (first, second, third) = (job(world).await, job(world).await, job(world).await);
    let why = explain(world, third).await;
    let frees = "the end of one of its 2 holders";
    assert_eq!(why.gates, [in_line(2, &[first, second], 1, frees)]);
    assert!(why.sentence.ends_with(frees), "{}", why.sentence);
    world.check_holds().await;
}

/// spec explained, G7: if the holder was cancelled and its worker has not stopped yet, the
/// explanation names that stop.
pub async fn behind_a_draining_holder_its_stop_is_awaited(world: &World) {
    limited(world, 1).await;
    let first = job(world).await;
    let driven = world.lease_one().await;
    let second = job(world).await;
    world.cancel(first).await.unwrap();
    let why = explain(world, second).await;
    let frees = format!("the worker of {first} confirming its stop, or the end of its lease");
    let gate = Binding { draining: vec![first], ..in_line(1, &[first], 1, &frees) };
    assert_eq!(why.gates, [gate]);
    assert!(why.sentence.ends_with(&frees), "{}", why.sentence);
    let said = "it was cancelled: by hand; its worker has not confirmed the stop yet";
    assert_eq!(ungated(world, first).await, ("cancelled", said.to_owned(), None));
    world.stopped(&driven).await;
    assert_eq!(ungated(world, first).await.1, "it was cancelled: by hand");
    assert!(explain(world, second).await.sentence.starts_with("it is ready"));
    world.check_holds().await;
}

/// spec explained, M1: the explained start time at a throttle is exact for every position in the
/// queue: a run starts at that time, and not a microsecond earlier.
pub async fn a_throttles_turn_is_exact(world: &World) {
    for (name, limit, burst) in [("one", 1, 1), ("three", 3, 1), ("seven", 7, 2)] {
        let throttle = json!({ "limit": limit, "perMs": 1000, "burst": burst });
        world.define(json!({ "name": name, "throttle": throttle })).await;
        for _ in 0..burst {
            world.send(name, json!({})).await;
            world.complete(&world.lease_one().await).await;
        }
        let mut waiting = Vec::new();
        for _ in 0..4 {
            waiting.push(world.send_for_run(name, json!({})).await);
        }
        let mut planned = Vec::new();
        for (n, run) in waiting.iter().enumerate() {
            let why = explain(world, *run).await;
            let at = why.earliest.expect("the explanation has no earliest time");
            let gate = &why.gates[0];
            assert_eq!((gate.control, gate.place, gate.at), ("throttle", Some(n + 1), Some(at)));
            assert_eq!(gate.limit, format!("{limit} in 1000 ms, {burst} at once"));
            assert_eq!(gate.frees, format!("its turn, at {}", at.rfc3339()));
            assert!(gate.full && gate.holders.is_empty());
            assert!(why.sentence.ends_with(&gate.frees), "{}", why.sentence);
            planned.push(at);
        }
        for (run, at) in waiting.into_iter().zip(planned) {
            world.clock.set(Timestamp::from_micros(at.micros() - 1));
            world.sweep().await;
            assert_eq!(world.lease_all().await, [], "{name}: not before {at}");
            world.clock.set(at);
            world.sweep().await;
            let leased = world.lease_one().await;
            assert_eq!(leased.id, run, "{name}: at {at}");
            world.complete(&leased).await;
        }
    }
}

/// spec explained: behind a run that was admitted and has not started, the explanation has no exact
/// time.
pub async fn a_turn_behind_one_not_started_has_no_moment(world: &World) {
    let throttle = json!({ "limit": 1, "perMs": 1000, "burst": 1 });
    world.define(json!({ "name": "call", "throttle": throttle })).await;
    let first = world.send_for_run("call", json!({})).await;
    let second = world.send_for_run("call", json!({})).await;
    let why = explain(world, second).await;
    assert_eq!((why.earliest, why.gates[0].at), (None, None));
    assert_eq!(why.gates[0].frees, "the start of a run that already has a turn");
    assert_eq!(world.lease_one().await.id, first);
    let at = world.now().plus_ms(1000);
    assert_eq!(explain(world, second).await.earliest, Some(at));
}

/// spec explained: the explanation of a run that no gate blocks says what the run does or waits
/// for.
pub async fn whatever_else_a_run_does_is_said(world: &World) {
    for name in ["job", "child"] {
        world.define(json!({ "name": name })).await;
    }
    let now = world.now();
    let run = world.send_for_run("job", json!({})).await;
    let said = "it is ready and waits for an engine that serves `job` v1".to_owned();
    assert_eq!(ungated(world, run).await, ("queued", said, Some(now)));
    let driven = world.lease_one().await;
    let said = "a worker runs it".to_owned();
    assert_eq!(ungated(world, run).await, ("running", said, None));
    world.sleep(&driven, "nap", 500).await;
    let until = now.plus_ms(500);
    let said = format!("step `nap` sleeps until {}", until.rfc3339());
    assert_eq!(ungated(world, run).await, ("waiting", said, Some(until)));
    world.tick(500).await;
    world.wait_for(&world.lease_one().await, "paid", "order.paid", &[]).await;
    let said = "step `paid` waits for an event `order.paid`".to_owned();
    assert_eq!(ungated(world, run).await, ("waiting", said, None));
    world.post("order.paid", json!({})).await;
    world.wait_for_signal(&world.lease_one().await, "ok", "go").await;
    let said = "step `ok` waits for a signal `go`".to_owned();
    assert_eq!(ungated(world, run).await, ("waiting", said, None));
    world.signal(run, "go", json!(1)).await.unwrap();
    world.invoke(&world.lease_one().await, "call", "child", json!({})).await;
    let child = world.lease_one().await;
    let said = format!("step `call` waits for its child {}", child.id);
    assert_eq!(ungated(world, run).await, ("waiting", said, None));
    world.pause(run).await.unwrap();
    let said = "it was paused by hand and goes on when it is resumed".to_owned();
    assert_eq!(ungated(world, run).await, ("paused", said, None));
    world.complete(&child).await;
    assert_eq!(ungated(world, child.id).await.1, "it completed");
    world.resume(run).await.unwrap();
    world.fail(&world.lease_one().await).await;
    assert_eq!(ungated(world, run).await, ("failed", "it failed: boom (Boom)".to_owned(), None));
}

/// spec explained: the explanation of a cancelled run names the run that replaced it, also before
/// its worker has stopped.
pub async fn a_replaced_run_names_who_took_its_place(world: &World) {
    world.define(json!({ "name": "job", "singleton": { "mode": "cancel" } })).await;
    let send = async || world.send("job", json!({})).await;
    let first = send().await.run().unwrap();
    let (second, old) = replaced(&send().await);
    assert_eq!(old, first);
    let said = format!("it was cancelled: replaced, and {second} runs in its place");
    assert_eq!(ungated(world, first).await, ("cancelled", said, None));
    let driven = world.lease_one().await;
    let (third, old) = replaced(&send().await);
    assert_eq!((old, driven.id), (second, second));
    let said = format!("it was cancelled: replaced, and {third} runs in its place");
    let stops = format!("{said}; its worker has not confirmed the stop yet");
    assert_eq!(ungated(world, second).await, ("cancelled", stops, None));
    assert_eq!(explain(world, third).await.gates[0].draining, [second]);
    world.stopped(&driven).await;
    assert_eq!(ungated(world, second).await, ("cancelled", said, None));
    world.check_holds().await;
}

/// spec explained, F4: the explanation of a run whose window is still open names the deadline; if
/// the window is held, the end of the holder.
pub async fn a_run_that_is_still_folding_is_known(world: &World) {
    let options = json!({ "name": "save", "debounce": { "periodMs": 1000 },
        "singleton": { "mode": "skip" } });
    world.define(options).await;
    let send = async |n: u32| window(&world.send("save", json!({ "n": n })).await);
    let (first, _) = send(1).await;
    world.pass(300);
    let (run, at) = send(2).await;
    assert_eq!(run, first);
    let (state, said, earliest) = ungated(world, run).await;
    assert_eq!((state, earliest), ("queued", Some(at)));
    let waits = format!("holds 2 events for it; it waits for the deadline at {}", at.rfc3339());
    assert!(said.starts_with("debounce of ") && said.ends_with(&waits), "{said}");
    world.clock.set(Timestamp::from_micros(at.micros() - 1));
    world.sweep().await;
    assert_eq!(world.state(run).await, "none", "the window fired before its deadline");
    world.clock.set(at);
    world.sweep().await;
    let holder = world.lease_one().await;
    let (held, _) = send(3).await;
    world.tick(1000).await;
    let (state, said, earliest) = ungated(world, held).await;
    assert_eq!((state, earliest), ("queued", None));
    let waits = "it waits for the end of the run that blocks its flush";
    assert!(said.ends_with(waits), "{said}");
    world.complete(&holder).await;
    world.sweep().await;
    assert!(explain(world, held).await.sentence.starts_with("it is ready"));
    world.check_holds().await;
}

/// spec explained: unknown runs and runs of other tenants are not explained.
pub async fn only_the_workspaces_own_runs_are_explained(world: &World) {
    let tenant = world.in_workspace("b");
    let fold = json!({ "name": "fold", "debounce": { "periodMs": 1000 } });
    for definition in [json!({ "name": "job" }), fold] {
        world.define(definition).await;
    }
    let live = world.send_for_run("job", Value::Null).await;
    let ended = world.send_for_run("job", Value::Null).await;
    world.cancel(ended).await.unwrap();
    let folding = world.send_for_run("fold", Value::Null).await;
    for run in [live, ended, folding] {
        explain(world, run).await;
        let refused = why(&*tenant.store, &tenant.ws, run).await.unwrap();
        assert_eq!(refused, Err(Refusal::NoRun(run)));
    }
    let unknown = RunId { salt: live.salt ^ 1, ..live };
    let refused = why(&*world.store, &world.ws, unknown).await.unwrap();
    assert_eq!(
        refused,
        Err(Refusal::NoRun(unknown)),
        "a run was found by its number with a wrong salt"
    );
}
