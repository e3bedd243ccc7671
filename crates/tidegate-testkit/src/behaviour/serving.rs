//! Served versions: engines register them, runs that no engine serves are reported as stranded, and
//! dead engines are deleted.

use serde_json::json;
use tidegate_core::{
    command::{Answer, Command, Refusal},
    explain::Why,
    id::RunId,
    reads::{ReadSet, Scan},
    row::{Row, RowKey},
};
use tidegate_store::why;

use crate::world::{World, lease};

async fn explain(world: &World, run: RunId) -> Why {
    let why = why(&*world.store, &world.ws, run).await.expect("the store works");
    why.unwrap_or_else(|refusal| panic!("the run was not explained: {refusal}"))
}

/// spec stranded: a run whose version no live engine serves is stranded, and `why` names the ways
/// out.
pub async fn a_run_that_nobody_serves_is_stranded(world: &World) {
    world.define(json!({ "name": "order", "version": 1, "concurrency": { "limit": 1 } })).await;
    let (ready, waiting) =
        (world.start("order", json!({})).await, world.start("order", json!({})).await);
    for run in [ready, waiting] {
        let why = explain(world, run).await;
        assert!(why.stranded, "{}", why.sentence);
        let ways = "it is stranded, as no live engine serves `order` v1: start one that does, let \
                    newer code continue it (`also_serves`), release a version whose handoff is \
                    `supersede`, or cancel it";
        assert!(why.sentence.ends_with(ways), "{}", why.sentence);
    }
    world.serve().await;
    assert!(!explain(world, ready).await.stranded && !explain(world, waiting).await.stranded);
    // An engine that serves another version only does not help.
    let second = world.define(json!({ "name": "order", "version": 2 })).await;
    let serve = Command::Serve { engine: world.engine, lanes: vec![second.lane] };
    assert_eq!(
        world.run(serve).await,
        Ok(Answer::Done),
        "the served versions must replace the earlier ones"
    );
    assert!(explain(world, ready).await.stranded);
    let driven = world.engine(2).lease(1).await.remove(0);
    assert_eq!(driven.id, ready);
    assert!(!explain(world, ready).await.stranded, "a driven run was reported as stranded");
    world.sleep(&driven, "nap", 10).await;
    let why = explain(world, ready).await;
    assert!(why.stranded && !why.sentence.contains("supersede"), "{}", why.sentence);
    world.engine(2).serve().await;
    assert!(
        !explain(world, ready).await.stranded,
        "a run that another engine serves was reported as stranded"
    );
    world.lose(2).await;
    assert!(
        explain(world, ready).await.stranded,
        "a run that only a dead engine serves must be stranded"
    );
    world.cancel(ready).await.unwrap();
    assert!(!explain(world, ready).await.stranded, "it has ended");
}

/// spec stranded: a release returns the number of live runs that it leaves without a serving
/// engine.
pub async fn a_release_says_how_many_runs_it_strands(world: &World) {
    let order = |version: u32| json!({ "name": "order", "version": version });
    world.define(order(1)).await;
    world.serve().await;
    for _ in 0..3 {
        world.start("order", json!({})).await;
    }
    let released = world.define(order(2)).await.released.expect("the highest is released");
    assert_eq!(
        (released.older, released.stranded),
        (3, 0),
        "the engine that serves version 1 lives"
    );
    world.start("order", json!({})).await;
    world.lose(world.engine).await;
    let released = world.define(order(3)).await.released.expect("the highest is released");
    assert_eq!((released.older, released.stranded), (4, 4));
    // Engine 2 also serves the older versions, and registers that before the release.
    world.engine(2).serve().await;
    assert_eq!(world.release("order", 2).await.stranded, 0);
}

/// spec heartbeats: an engine that never sent a heartbeat gets no runs, because no other engine
/// would notice its death.
pub async fn an_engine_beats_before_it_asks(world: &World) {
    let defined = world.define(json!({ "name": "order" })).await;
    let run = world.start("order", json!({})).await;
    let (ws, engine, lanes) = (world.ws.clone(), world.engine, vec![defined.lane]);
    let lease = lease(ws, engine, lanes.clone(), 9);
    let serve = Command::Serve { engine, lanes };
    for command in [&lease, &serve] {
        assert_eq!(world.run(command.clone()).await, Err(Refusal::NoEngine(engine)));
    }
    assert_eq!(world.state(run).await, "queued");
    assert!(world.heartbeat(engine).await);
    assert_eq!(world.run(serve.clone()).await, Ok(Answer::Done));
    assert!(matches!(world.run(lease).await, Ok(Answer::Leased(runs)) if runs.len() == 1));
    world.lose(engine).await;
    assert_eq!(world.run(serve).await, Err(Refusal::EngineDead(engine)));
}

/// spec heartbeats: the row of a dead engine is deleted when it owns no run any more, and the
/// engine cannot return.
pub async fn the_dead_are_buried_when_they_own_nothing(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let run = world.drive("order", json!({})).await;
    let engine = world.engine;
    let bury = || world.run(Command::Bury { engine });
    assert_eq!(bury().await, Ok(Answer::Changed(false)), "it lives");
    assert_eq!(world.run(Command::MarkDead { engine, beat: 1 }).await, Ok(Answer::Changed(true)));
    assert_eq!(bury().await, Ok(Answer::Changed(false)), "it owns a run");
    assert_eq!(buriable(world).await, Vec::<u128>::new());
    // The last run can be reaped and the row deleted in one transaction.
    let reap = Command::Reap {
        known: Box::new(run.clone()),
        engine,
        max_deaths: tidegate_core::run::sweep::MAX_DEATHS,
    };
    let answers = world.batch(vec![reap, Command::Bury { engine }]).await;
    assert_eq!(answers, [Ok(Answer::Changed(true)), Ok(Answer::Changed(true))]);
    assert_eq!(world.row(RowKey::Engine(engine)).await, None);
    assert_eq!(bury().await, Ok(Answer::Changed(false)), "once");
    assert!(!world.heartbeat(engine).await, "the heartbeat of a deleted engine must be refused");
    let (ws, lanes) = (world.ws.clone(), world.lanes().await);
    let lease = world.run(lease(ws, engine, lanes, 9)).await;
    assert_eq!(lease, Err(Refusal::NoEngine(engine)));
    let other = world.engine(2);
    let again = other.lease_one().await;
    assert_eq!((again.id, again.fence), (run.id, run.fence + 1));
    world.lose(2).await;
    assert_eq!(buriable(world).await, [2]);
}

async fn buriable(world: &World) -> Vec<u128> {
    let snapshot = world.read(ReadSet::default().scan(Scan::Buriable, 9)).await;
    let rows = snapshot.found(&Scan::Buriable).into_iter();
    rows.filter_map(|row| if let Row::Engine(row) = row { Some(row.id) } else { None }).collect()
}
