//! Deploys of code without a version number: the number that a definition gets, the released
//! version, and what the rows of versions record about it.

use serde_json::{Value, json};
use tidegate_core::{
    catalog::{Entry, Version},
    command::Command,
    id::Seq,
    reads::{Change, ReadSet},
    row::{Def, Epoch, Row, RowKey},
    version::Registered,
};
use tidegate_store::why;

use crate::{contract::change, worker::for_child, world::World};

/// Builds a definition of `order` that differs from others by its limit.
fn order(limit: u32) -> Value {
    json!({ "name": "order", "concurrency": { "limit": limit } })
}

fn numbered(version: u32, limit: u32) -> Value {
    let mut definition = order(limit);
    definition["version"] = json!(version);
    definition
}

async fn entry(world: &World) -> Entry {
    let snapshot = world.read(ReadSet::default().catalog(&world.ws)).await;
    snapshot.catalogs[&world.ws].entry("default", "order").expect("it is registered").clone()
}

async fn current(world: &World) -> u32 {
    entry(world).await.current.expect("one is released").version.number
}

/// Returns for each version, from 1, whether it is recorded as registered without a number.
async fn assigned(world: &World) -> Vec<bool> {
    entry(world).await.versions.values().map(Version::is_assigned).collect()
}

/// Returns the version, whether it was registered before, and whether it was released.
fn outcome(registered: &Registered) -> (u32, bool, bool) {
    (registered.version, registered.unchanged, registered.released.is_some())
}

/// spec versions: two programs that are started alternately make no new versions: each gets its own
/// version again, and new runs use the version of the program that started last.
pub async fn deploys_back_and_forth_make_no_new_versions(world: &World) {
    let first = world.define(order(1)).await;
    assert_eq!(outcome(&first), (1, false, true));
    assert_eq!(outcome(&world.define(order(2)).await), (2, false, true));
    for _ in 0..3 {
        for (limit, version) in [(1, 1), (2, 2)] {
            let registered = world.define(order(limit)).await;
            assert_eq!(outcome(&registered), (version, true, true), "limit {limit}");
            assert_eq!(current(world).await, version);
            let again = world.define(order(limit)).await;
            assert_eq!(
                outcome(&again),
                (version, true, false),
                "a restart must not register or release a version"
            );
        }
    }
    assert_eq!(world.define(order(1)).await.lane, first.lane);
    assert_eq!(world.drive("order", json!({})).await.version, 1);
    assert_eq!(outcome(&world.define(order(3)).await), (3, false, true));
    assert_eq!(assigned(world).await, [true, true, true]);
}

/// spec versions: a release by hand stays in force when programs with registered definitions start
/// again. It ends when a new definition is registered.
pub async fn a_release_by_hand_outlasts_restarts(world: &World) {
    for limit in [1, 2, 3] {
        world.define(order(limit)).await;
    }
    world.release("order", 1).await;
    for limit in [3, 2, 1, 3] {
        assert!(world.define(order(limit)).await.released.is_none(), "limit {limit}");
        assert_eq!(current(world).await, 1);
    }
    world.define(order(4)).await;
    assert_eq!(current(world).await, 4);
    assert!(
        world.define(order(2)).await.released.is_some(),
        "a deploy after a new definition did not release its version"
    );
    // Version 4 is released by hand, but is also the one that the last deploy released.
    world.release("order", 4).await;
    assert_eq!(outcome(&world.define(order(3)).await), (3, true, true));
}

/// spec versions: the record that a version was registered without a number never changes. Code
/// with a number registers its version as numbered, and code without a number does not return to a
/// version before it.
pub async fn versions_record_who_numbered_them(world: &World) {
    world.define(order(1)).await;
    world.define(numbered(2, 2)).await;
    assert_eq!(assigned(world).await, [true, false]);
    world.define(numbered(1, 1)).await;
    assert_eq!(
        assigned(world).await,
        [true, false],
        "the record of version 1 changed when code gave its number"
    );
    let behind = world.define(order(1)).await;
    assert_eq!(
        outcome(&behind),
        (3, false, true),
        "code without a number must get a new version after version 2"
    );
    world.define(numbered(4, 4)).await;
    let same = world.define(order(4)).await;
    assert_eq!(outcome(&same), (4, true, false), "an unchanged definition made a new version");
    assert_eq!(assigned(world).await, [true, false, true, true]);
}

/// spec versions: a version of an old store, which did not record how it was registered, counts as
/// registered without a number, until code with its number registers it.
pub async fn versions_from_before_are_not_stranded(world: &World) {
    for (limit, given) in [(1, false), (2, true)] {
        let world = world.in_workspace(&format!("{given}"));
        let lane = world.define(order(limit)).await.lane;
        forget(&world, lane).await;
        assert_eq!(assigned(&world).await, [true]);
        let again = if given { numbered(1, limit) } else { order(limit) };
        assert_eq!(outcome(&world.define(again).await), (1, true, false));
        assert_eq!(assigned(&world).await, [!given]);
    }
    // A release by hand in an old store stays in force.
    let lane = world.define(order(1)).await.lane;
    let newer = world.define(order(2)).await.lane;
    world.release("order", 1).await;
    for lane in [lane, newer] {
        forget(world, lane).await;
    }
    assert!(world.define(order(2)).await.released.is_none());
    assert_eq!(current(world).await, 1);
}

/// Changes a definition row to the form of old stores, which did not record how versions were
/// registered.
async fn forget(world: &World, lane: Seq) {
    let epoch = world.row(RowKey::Epoch(world.ws.clone())).await;
    let (Some(Row::Def(def)), Some(Row::Epoch(epoch))) =
        (world.row(RowKey::Def(lane)).await, epoch)
    else {
        panic!("both are there");
    };
    let def = Def { assigned: None, deployed: false, ..def };
    let epoch = Epoch { n: epoch.n + 1, ..epoch };
    let changes = vec![Change::Update(def.into()), Change::Update(epoch.into())];
    change(&world.store, changes).await.expect("the store works");
}

/// spec versions: after a deploy of code without a number, that code also serves the runs of older
/// versions without a number. After a deploy with a number, such runs are stranded.
pub async fn a_deploy_without_a_number_strands_nobody(world: &World) {
    world.define(order(9)).await;
    world.start("order", json!({})).await;
    let released = world.define(order(8)).await.released.expect("it is new");
    assert_eq!(
        (released.older, released.stranded),
        (1, 0),
        "the new code serves version 1, so its run is not stranded"
    );
    let released = world.define(numbered(3, 7)).await.released.expect("it is the highest");
    assert_eq!((released.older, released.stranded), (1, 1));
}

/// spec versions: in development mode a changed definition replaces the definition of the same
/// version, with or without a given number.
pub async fn development_keeps_the_number(world: &World) {
    world.define(order(1)).await;
    let run = world.start("order", json!({})).await;
    let queued = world.start("order", json!({})).await;
    let changed = world.define_dev(order(2)).await;
    assert_eq!(outcome(&changed), (1, false, true));
    world.sweep().await;
    let leased: Vec<_> = world.lease_all().await.into_iter().map(|run| run.id).collect();
    assert_eq!(leased, [run, queued], "runs of the same version must get the new limit");
    world.define(order(3)).await;
    assert_eq!(outcome(&world.define_dev(order(4)).await), (2, false, true));
    assert_eq!(outcome(&world.define_dev(order(2)).await), (1, true, true), "it is known");
    // Version 1 was released by a deploy; after the change of version 2, that one is released.
    assert_eq!(outcome(&world.define_dev(order(7)).await), (2, false, true));
    assert_eq!(current(world).await, 2);
    world.release("order", 1).await;
    assert_eq!(outcome(&world.define_dev(order(8)).await), (2, false, false), "held by hand");
    world.release("order", 2).await;
    world.define(numbered(3, 5)).await;
    assert_eq!(outcome(&world.define_dev(order(6)).await), (4, false, true), "3 is its author's");
}

/// spec versions: if a run waits for a holder or a child that no engine serves, its `why` names
/// that run, the version of it, and the ways out.
pub async fn why_names_the_stranded_run_that_is_in_the_way(world: &World) {
    let one = |version: u32| {
        let concurrency = json!({ "limit": 1, "span": "run" });
        json!({ "name": "order", "version": version, "concurrency": concurrency })
    };
    world.define(one(1)).await;
    let holder = world.drive("order", json!({})).await;
    world.sleep(&holder, "nap", 10).await;
    world.define(json!({ "name": "parent", "version": 1 })).await;
    world.define(one(2)).await;
    let behind = world.start("order", json!({})).await;
    let explain = async |run| {
        let why = why(&*world.store, &world.ws, run).await.expect("the store works");
        why.unwrap_or_else(|refusal| panic!("the run was not explained: {refusal}"))
    };
    world.serve().await;
    let before = explain(behind).await;
    assert!(before.gates[0].stranded.is_empty(), "{}", before.sentence);
    let lanes = world.lanes().await.into_iter().filter(|lane| *lane != holder.lane).collect();
    let serve = Command::Serve { engine: world.engine, lanes };
    world.run(serve).await.expect("it lives");
    let why = explain(behind).await;
    assert_eq!(why.gates[0].stranded, [holder.id]);
    assert!(!why.stranded, "the run itself is not stranded: its version is served");
    let ways = format!(
        "the end of {0}; {0} is stranded, as no live engine serves `order` v1: start one that \
         does, let newer code continue it (`also_serves`), or cancel it",
        holder.id
    );
    assert!(why.sentence.ends_with(&ways), "{}", why.sentence);

    world.release("order", 1).await;
    let parent = world.drive("parent", json!({})).await;
    world.suspend(&parent, vec![for_child("child", "order", &json!({}))]).await;
    let why = explain(parent.id).await;
    assert!(why.sentence.contains("is stranded, as no live engine serves `order` v1"));
    assert!(!why.stranded, "{}", why.sentence);
}
