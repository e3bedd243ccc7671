//! Releases: the version of new runs, and the effect of a release on live runs.

use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Command, Refusal},
    definition::Definition,
    flow::Verdict,
};

use crate::world::{World, event, lease};

fn handoff(policy: &str) -> Value {
    json!({ "type": "singleton", "onNewVersion": policy })
}

async fn current(world: &World, name: &str) -> Option<u32> {
    let reads = tidegate_core::reads::ReadSet::default().catalog(&world.ws);
    let snapshot = world.read(reads).await;
    let catalog = snapshot.catalogs.get(&world.ws)?;
    Some(catalog.entry("default", name)?.current.as_ref()?.version.number)
}

/// spec release: registering a version releases it only if its number is higher than all before.
pub async fn only_a_higher_number_releases_itself(world: &World) {
    for (version, now) in [(3, 3), (1, 3), (2, 3), (5, 5), (4, 5)] {
        let registered = world.define(json!({ "name": "order", "version": version })).await;
        assert_eq!(registered.version, version);
        assert_eq!(registered.released.is_some(), now == version, "version {version}");
        assert_eq!(current(world, "order").await, Some(now));
        assert_eq!(world.drive("order", json!({})).await.version, now);
    }
    let (ws, app, name) = (world.ws.clone(), "default".to_owned(), "order".to_owned());
    let unknown = Command::Release { ws, app: app.clone(), name: name.clone(), version: 9 };
    let refused = Err(Refusal::NoVersion { app, name, version: 9 });
    assert_eq!(world.run(unknown).await, refused);
}

/// spec release: the definition of a registered version number cannot be changed, except in
/// development mode.
pub async fn a_number_with_another_definition_is_refused(world: &World) {
    let slots =
        |limit: u32| json!({ "name": "order", "version": 1, "concurrency": { "limit": limit } });
    let first = world.define(slots(1)).await;
    let again = world.define(slots(1)).await;
    assert_eq!((again.lane, again.unchanged, again.released), (first.lane, true, None));
    let other = Definition::parse(&slots(3)).expect("a good definition").value;
    let (app, name) = ("default".to_owned(), "order".to_owned());
    let refused = Err(Refusal::VersionChanged { app, name, version: 1 });
    assert_eq!(world.try_register(other).await, refused);
    for n in 0..3 {
        world.start("order", json!({ "n": n })).await;
    }
    assert_eq!(world.lease_all().await.len(), 1, "a refused definition changed the limit");
    let changed = world.define_dev(slots(3)).await;
    assert_eq!((changed.lane, changed.version, changed.unchanged), (first.lane, 1, false));
    world.sweep().await;
    assert_eq!(world.lease_all().await.len(), 2, "the queue must be admitted up to the new limit");
    world.define(json!({ "name": "order", "version": 2 })).await;
    world.define_dev(slots(4)).await;
    assert_eq!(current(world, "order").await, Some(2), "a changed old version was released again");
}

/// spec release: numbers that the server assigns count up, and a registered definition gets no new
/// one.
pub async fn assigned_versions_count_up(world: &World) {
    let slots = |limit: u32| json!({ "name": "order", "concurrency": { "limit": limit } });
    for (limit, version, unchanged) in
        [(1, 1, false), (1, 1, true), (2, 2, false), (2, 2, true), (3, 3, false)]
    {
        let registered = world.define(slots(limit)).await;
        assert_eq!((registered.version, registered.unchanged), (version, unchanged));
        assert_eq!(current(world, "order").await, Some(version));
    }
    // After a rollback, the newest definition is still registered, and registering it again does
    // not release it.
    world.release("order", 2).await;
    let registered = world.define(slots(3)).await;
    assert_eq!((registered.version, registered.released), (3, None));
    assert_eq!(current(world, "order").await, Some(2));
}

/// spec release: descriptions and schemas do not affect runs: changes apply at once, in the same
/// version.
pub async fn what_a_definition_says_of_itself_makes_no_version(world: &World) {
    let order = |text: &str| json!({ "name": "order", "description": text, "schema": {} });
    for given in [false, true] {
        for text in ["takes an order", "takes an order in"] {
            let mut definition = order(text);
            if given {
                definition["version"] = json!(1);
            }
            let registered = world.define(definition).await;
            assert_eq!(registered.version, 1, "{text}");
            let reads = tidegate_core::reads::ReadSet::default().catalog(&world.ws);
            let catalog = world.read(reads).await.catalogs[&world.ws].clone();
            let entry = catalog.entry("default", "order").expect("it is there");
            let current = entry.current.as_ref().expect("it is released");
            assert_eq!(current.workflow.description.as_deref(), Some(text));
        }
    }
    assert!(world.define(order("takes an order in")).await.unchanged);
    assert_eq!(world.drive("order", json!({})).await.version, 1);
}

/// spec N47: a rollback is a release: the lower number is the newer version now, and its handoff
/// policy applies.
pub async fn rolling_back_is_a_release(world: &World) {
    for policy in ["supersede", "drain"] {
        let world = world.in_workspace(policy);
        let define = async |version: u32| {
            let handoff = handoff(policy);
            world.define(json!({ "name": "order", "version": version, "handoff": handoff })).await
        };
        define(1).await;
        define(2).await;
        let old = world.drive("order", json!({})).await;
        assert_eq!(old.version, 2);
        assert_eq!(world.release("order", 1).await.older, 1);
        let new = world.send("order", json!({})).await;
        if policy == "supersede" {
            assert_eq!(world.cancelled(old.id).await.0, "superseded by version 1");
            world.stopped(&old).await;
        } else {
            assert!(world.lease_all().await.is_empty());
            world.complete(&old).await;
        }
        let run = world.lease_one().await;
        assert_eq!((Some(run.id), run.version), (new.run(), 1));
        // After its second release, version 2 treats the runs of version 1 as runs of an older
        // version.
        world.release("order", 2).await;
        world.send("order", json!({})).await;
        let expected = if policy == "supersede" { "cancelled" } else { "running" };
        assert_eq!(world.state(run.id).await, expected);
        // A run from the first time that version 1 was released does not count as older than
        // version 1.
        world.release("order", 1).await;
        assert_eq!(world.state(run.id).await, expected);
    }
}

/// spec release: a release that adds a handoff makes a hold for each live older run, with the key
/// from its stored input, and lists the runs without the key.
pub async fn a_new_handoff_adopts_live_runs(world: &World) {
    for policy in ["drain", "supersede"] {
        let world = world.in_workspace(policy);
        world.define(json!({ "name": "order", "version": 1, "concurrency": { "limit": 9 } })).await;
        let driven = world.drive("order", json!({ "id": 1 })).await;
        let asleep = world.drive("order", json!({ "id": 1 })).await;
        world.sleep(&asleep, "nap", 1000).await;
        let lacking = world.drive("order", json!({ "no": 1 })).await;
        let ended = world.drive("order", json!({ "id": 3 })).await;
        world.complete(&ended).await;
        let ready = world.start("order", json!({ "id": 2 })).await;
        let keyed = json!({ "type": "keyed", "keyField": "id", "onNewVersion": policy });
        let definition = json!({ "name": "order", "version": 2, "handoff": keyed });
        let released = world.define(definition).await.released.expect("it is released");
        assert_eq!((released.older, released.lacking), (4, vec![lacking.id]));
        world.check_holds().await;
        let first = world.send("order", json!({ "id": 1 })).await;
        let second = world.send("order", json!({ "id": 2 })).await;
        assert!(matches!(second, Verdict::Queued { .. }), "{second:?}");
        let third = world.send("order", json!({ "id": 3 })).await;
        assert!(
            matches!(third, Verdict::Started { .. }),
            "key 3 has no live run, so the new one must start: {third:?}"
        );
        if policy == "supersede" {
            for run in [driven.id, asleep.id] {
                assert_eq!(world.cancelled(run).await.1, first.run());
            }
            world.stopped(&driven).await;
            let moved = world.live(ready).await.expect("it goes on");
            assert_eq!(moved.version, 2, "a run that has not started must get the new version");
        } else {
            world.sleep(&driven, "nap", 10).await;
            let started = world.lease_all().await;
            let ids: Vec<_> = started.iter().map(|run| (Some(run.id), run.version)).collect();
            assert_eq!(ids, [(Some(ready), 1), (third.run(), 2)]);
            world.cancel(asleep.id).await.expect("it lives");
            assert!(world.lease_all().await.is_empty(), "the sleeping run must keep its hold");
            world.check_holds().await;
            world.tick(10).await;
            let driven = world.lease_one().await;
            assert_eq!(driven.version, 1);
            world.complete(&driven).await;
        }
        assert_eq!(world.state(lacking.id).await, "running");
        let started = world.lease_all().await;
        assert!(started.iter().any(|run| Some(run.id) == first.run()), "{started:?}");
        world.check_holds().await;
    }
}

/// spec release: a release with `coexist` makes no holds for older runs. A later one with `drain`
/// does, also for runs of the coexisting version.
pub async fn a_coexisting_version_is_adopted_by_the_next(world: &World) {
    let define = async |version: u32, policy: &str| {
        let handoff = handoff(policy);
        world.define(json!({ "name": "order", "version": version, "handoff": handoff })).await
    };
    define(1, "coexist").await;
    let first = world.drive("order", json!({})).await;
    define(2, "coexist").await;
    let second = world.drive("order", json!({})).await;
    define(3, "drain").await;
    world.check_holds().await;
    let third = world.start("order", json!({})).await;
    for run in [first, second] {
        assert!(world.lease_all().await.is_empty());
        world.complete(&run).await;
    }
    assert_eq!(world.drain().await, [third]);
    world.check_quiet().await;
}

/// spec release, B106: with a handoff, a singleton applies within one version.
pub async fn a_singleton_beside_a_handoff_is_within_its_version(world: &World) {
    for mode in ["skip", "cancel"] {
        let world = world.in_workspace(mode);
        let define = async |version: u32| {
            let handoff = handoff("drain");
            let singleton = json!({ "mode": mode });
            let definition = json!({
                "name": "order", "version": version, "handoff": handoff, "singleton": singleton,
            });
            world.define(definition).await
        };
        define(1).await;
        let old = world.drive("order", json!({})).await;
        define(2).await;
        let first = world.send("order", json!({})).await;
        assert!(
            matches!(first, Verdict::Queued { .. }),
            "the new run must wait for the old version: {first:?}"
        );
        let second = world.send("order", json!({})).await;
        let first = first.run().expect("a run");
        let survivor = if mode == "skip" {
            assert!(matches!(second, Verdict::Skipped { holder, .. } if holder == first));
            first
        } else {
            assert!(matches!(second, Verdict::Replaced { replaced, .. } if replaced == first));
            second.run().expect("a run")
        };
        assert_eq!(
            world.state(old.id).await,
            "running",
            "the singleton replaced a run of another version"
        );
        world.complete(&old).await;
        assert_eq!(world.drain().await, [survivor]);
        world.check_quiet().await;
    }
}

/// spec controls: the run of a window or buffer gets the version that is released at its flush,
/// with the controls of that version.
pub async fn a_fold_takes_the_version_at_its_flush(world: &World) {
    let folds = [
        json!({ "debounce": { "periodMs": 100 } }),
        json!({ "batch": { "maxSize": 9, "timeoutMs": 100 } }),
    ];
    for (n, fold) in folds.into_iter().enumerate() {
        let world = world.in_workspace(&n.to_string());
        let define = async |version: u32, controls: &Value| {
            let mut definition = json!({ "name": "order", "version": version });
            let controls = controls.as_object().expect("an object").clone();
            definition.as_object_mut().expect("an object").extend(controls);
            world.define(definition).await
        };
        define(1, &fold).await;
        let first = world.send("order", json!({ "n": 1 })).await;
        define(2, &fold).await;
        let joined = world.send("order", json!({ "n": 2 })).await;
        assert_eq!(
            joined.run(),
            first.run(),
            "an open window must also take events after a release"
        );
        world.tick(100).await;
        let run = world.lease_one().await;
        assert_eq!((Some(run.id), run.version), (first.run(), 2));
        // An open window or buffer is also flushed if the newer version has no such control.
        let open = world.send("order", json!({ "n": 3 })).await;
        define(3, &json!({})).await;
        assert!(matches!(world.send("order", json!({})).await, Verdict::Started { .. }));
        world.tick(100).await;
        let flushed = world.live(open.run().expect("a run")).await.expect("it was flushed");
        assert_eq!(flushed.version, 3);
    }
}

/// spec controls: a raised limit admits queued runs, a removed one admits all, a lowered one evicts
/// none.
pub async fn a_new_limit_rules_from_its_release_on(world: &World) {
    let limits = |version: u32, controls: Value| {
        let mut definition = json!({ "name": "order", "version": version });
        let controls = controls.as_object().expect("an object").clone();
        definition.as_object_mut().expect("an object").extend(controls);
        definition
    };
    let slots = |limit: u32, span: &str| json!({ "concurrency": { "limit": limit, "span": span } });
    for span in ["executing", "run"] {
        let world = world.in_workspace(span);
        world.define(limits(1, slots(1, span))).await;
        for n in 0..9 {
            world.start("order", json!({ "n": n })).await;
        }
        let mut driven = world.lease_all().await;
        for (version, controls, more) in [
            (2, slots(4, span), 3),
            (3, slots(2, span), 0),
            (4, slots(5, span), 1),
            (5, json!({}), 4),
        ] {
            world.define(limits(version, controls)).await;
            world.sweep().await;
            let leased = world.lease_all().await;
            assert_eq!(leased.len(), more, "version {version}, {span}");
            driven.extend(leased);
            world.check_holds().await;
        }
        for run in driven {
            world.complete(&run).await;
        }
        world.check_quiet().await;
    }
    let world = world.in_workspace("throttle");
    let rate = |per_ms: u64| json!({ "throttle": { "limit": 1, "perMs": per_ms } });
    world.define(limits(1, rate(1_000_000))).await;
    for n in 0..3 {
        world.start("order", json!({ "n": n })).await;
    }
    assert_eq!(world.lease_all().await.len(), 1);
    world.define(limits(2, rate(1000))).await;
    world.tick(1000).await;
    assert_eq!(world.lease_all().await.len(), 1, "the spacing of the new throttle must apply");
    world.define(limits(3, json!({}))).await;
    world.sweep().await;
    assert_eq!(
        world.lease_all().await.len(),
        1,
        "without a throttle the last run must be admitted"
    );
}

/// spec release: a release also applies to the commands behind it in the same transaction.
pub async fn a_release_rules_the_next_command(world: &World) {
    world.define(json!({ "name": "order", "version": 1 })).await;
    let workflow = Definition::parse(&json!({ "name": "order", "version": 2 }));
    let workflow = Box::new(workflow.expect("a good definition").value);
    let post = || Command::Post { ws: world.ws.clone(), events: vec![event("order", &json!({}))] };
    let register = Command::Register { ws: world.ws.clone(), workflow, dev: false };
    let mut versions = Vec::new();
    for answer in world.batch(vec![post(), register, post()]).await {
        if let Ok(Answer::Posted(posted)) = answer {
            versions.extend(posted.iter().flat_map(|posted| &posted.runs).map(|run| run.version));
        }
    }
    assert_eq!(versions, [1, 2]);
    let leased: Vec<_> = world.lease_all().await.iter().map(|run| run.version).collect();
    assert_eq!(leased, [1, 2], "an engine that serves both leases both");
}

/// spec release, B160: an engine leases only the versions that it serves.
pub async fn an_engine_leases_what_it_serves(world: &World) {
    let first = world.define(json!({ "name": "order", "version": 1 })).await;
    let one = world.start("order", json!({})).await;
    let second = world.define(json!({ "name": "order", "version": 2 })).await;
    let two = world.start("order", json!({})).await;
    world.enlist().await;
    for (lane, expected) in [(second.lane, two), (first.lane, one)] {
        let (ws, engine, lanes) = (world.ws.clone(), world.engine, vec![lane]);
        let leased = world.run(lease(ws, engine, lanes, 9)).await;
        let Ok(Answer::Leased(runs)) = leased else {
            panic!("unexpected answer to a lease: {leased:?}")
        };
        let ids: Vec<_> = runs.iter().map(|run| run.id).collect();
        assert_eq!(ids, [expected]);
    }
}

/// spec release: however many runs are live, each gets its hold from the release, and all holders
/// of a key are superseded together.
pub async fn a_new_handoff_adopts_a_crowd(world: &World) {
    world.define(json!({ "name": "order", "version": 1 })).await;
    for n in 0..60 {
        world.start("order", json!({ "id": n % 2, "n": n })).await;
    }
    let driven = world.lease_all().await;
    let keyed = json!({ "type": "keyed", "keyField": "id", "onNewVersion": "supersede" });
    world.define(json!({ "name": "order", "version": 2, "handoff": keyed })).await;
    world.check_holds().await;
    let new = world.start("order", json!({ "id": 0 })).await;
    for (n, run) in driven.iter().enumerate() {
        let expected = if n % 2 == 0 { "cancelled" } else { "running" };
        assert_eq!(world.state(run.id).await, expected);
        if n % 2 == 0 {
            assert!(world.lease_all().await.is_empty());
            world.stopped(run).await;
        } else {
            world.complete(run).await;
        }
    }
    assert_eq!(world.drain().await, [new]);
    world.check_quiet().await;
}

/// spec controls: a raised limit admits a long queue at once, through all later gates.
pub async fn a_raised_limit_serves_a_long_line(world: &World) {
    let slots = |limit: u32| json!([{ "limit": limit, "span": "run" }, { "limit": 1, "key": "n" }]);
    world.define(json!({ "name": "order", "concurrency": slots(1) })).await;
    for n in 0..60 {
        world.start("order", json!({ "n": n })).await;
    }
    assert_eq!(world.lease_all().await.len(), 1);
    world.define(json!({ "name": "order", "concurrency": slots(60) })).await;
    world.sweep().await;
    assert_eq!(world.lease_all().await.len(), 59);
    world.check_holds().await;
}

/// spec G9: if versions with different handoff keys are released in turn, no run holds what a run
/// of the other version waits for. The run of the currently older version is first.
pub async fn releases_in_turn_make_no_deadlock(world: &World) {
    let handoff = |version: u32, scope: Value| {
        let mut handoff = json!({ "onNewVersion": "drain" });
        handoff.as_object_mut().unwrap().extend(scope.as_object().unwrap().clone());
        json!({ "name": "sync", "version": version, "handoff": handoff })
    };
    world.define(handoff(1, json!({ "type": "singleton" }))).await;
    let first = world.drive("sync", json!({ "id": 1 })).await;
    let second = world.start("sync", json!({ "id": 1 })).await;
    world.define(handoff(2, json!({ "type": "keyed", "keyField": "id" }))).await;
    let third = world.start("sync", json!({ "id": 1 })).await;
    world.release("sync", 1).await;
    world.complete(&first).await;
    assert_eq!(world.drain().await, [third, second]);
    world.check_quiet().await;
}

/// spec G9: versions with different handoff keys make no deadlock either if one run has a gate
/// before its handoff and is queued there when the other version is released again.
pub async fn a_release_gives_no_hold_to_those_who_are_yet_to_wait(world: &World) {
    let handoff = |key: &str| json!({ "type": "keyed", "keyField": key, "onNewVersion": "drain" });
    let singleton = json!({ "mode": "cancel" });
    let (both, first) = (json!({ "j": 0, "k": 0 }), handoff("j"));
    world
        .define(json!({ "name": "sync", "version": 1, "singleton": singleton, "handoff": first }))
        .await;
    let old = world.drive("sync", both.clone()).await;
    world.define(json!({ "name": "sync", "version": 2, "handoff": handoff("k") })).await;
    let waits = world.start("sync", both.clone()).await;
    world.release("sync", 1).await;
    let replaces = world.start("sync", both).await;
    world.release("sync", 2).await;
    world.stopped(&old).await;
    assert_eq!(world.drain().await, [waits, replaces]);
    world.check_quiet().await;
}
