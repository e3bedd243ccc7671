//! Throttle: starts are spread over time, and no run is lost.

use serde_json::{Value, json};
use tidegate_core::{
    flow::Verdict,
    id::RunId,
    row::{Row, Run},
    time::Timestamp,
};

use tidegate_store::why;

use crate::world::{World, event};

/// Builds a workflow with this throttle.
fn throttled(limit: u32, per_ms: u64, burst: u32) -> Value {
    let throttle = json!({ "limit": limit, "perMs": per_ms, "burst": burst });
    json!({ "name": "call", "throttle": throttle })
}

/// Posts `count` events at once; returns their runs.
async fn flood(world: &World, count: u32) -> Vec<RunId> {
    let events = (0..count).map(|n| event("call", &json!({ "n": n }))).collect();
    let posted = world.post_all(events).await;
    posted.iter().map(|posted| posted.runs[0].verdict.run().expect("none is lost")).collect()
}

/// Advances the clock in steps and leases all ready runs at each; returns the time and run of each
/// first start.
async fn starts(world: &World, step_ms: u64, steps: u64) -> Vec<(u64, RunId)> {
    let mut started = Vec::new();
    for n in 0..steps {
        for run in world.lease_all().await {
            started.push((n * step_ms, run.id));
            world.complete(&run).await;
        }
        world.tick(step_ms).await;
    }
    started
}

fn times(started: &[(u64, RunId)]) -> Vec<u64> {
    started.iter().map(|(at, _)| *at).collect()
}

fn ids(started: &[(u64, RunId)]) -> Vec<RunId> {
    started.iter().map(|(_, id)| *id).collect()
}

/// spec M1, B71–B73: a burst of events is spread evenly, in order, and all its runs start.
pub async fn a_burst_is_spread_over_the_window(world: &World) {
    world.define(throttled(4, 1000, 1)).await;
    let sent = flood(world, 6).await;
    let started = starts(world, 10, 140).await;
    assert_eq!(times(&started), [0, 250, 500, 750, 1000, 1250]);
    assert_eq!(ids(&started), sent);
}

/// spec M1: the verdict says that the run waits for a throttle turn, and when it will probably
/// start.
pub async fn the_caller_is_told_when_its_turn_is_about_due(world: &World) {
    world.define(throttled(1, 1000, 1)).await;
    let first = world.send("call", json!({})).await;
    assert!(matches!(first, Verdict::Started { .. }), "{first:?}");
    world.lease_one().await;
    let second = world.send("call", json!({})).await;
    let Verdict::Queued { by, start_at, .. } = &second else { panic!("{second:?}") };
    assert_eq!((by.control, *start_at), ("throttle", Some(world.now().plus_ms(1000))));
}

/// spec M1: the start time in the verdict is that of the run's own turn, as in `why`: for every
/// length of the queue, for single events and several in one request, and after some runs have
/// started.
pub async fn the_caller_is_told_its_own_turn(world: &World) {
    for (limit, burst) in [(1, 1), (3, 1), (2, 4)] {
        world.define(throttled(limit, 1000, burst)).await;
        let mut answer = Vec::new();
        for n in 0..8 {
            let events = (0..n).map(|n| event("call", &json!({ "n": n }))).collect();
            let posted = world.post_all(events).await;
            answer.extend(posted.into_iter().map(|posted| posted.runs[0].verdict.clone()));
            answer.push(world.send("call", json!({})).await);
            for verdict in &answer {
                let Verdict::Queued { run, start_at, .. } = verdict else { continue };
                let why = why(&*world.store, &world.ws, *run).await.unwrap().unwrap();
                assert_eq!(*start_at, why.earliest, "{limit} {burst} {n}: {}", why.sentence);
            }
            answer.clear();
            world.lease_all().await;
            world.tick(1000).await;
        }
        world.tick(100_000).await;
        while !world.lease_all().await.is_empty() {
            world.tick(100_000).await;
        }
    }
}

/// spec M1, B75: after a quiet time as many runs as the burst may start at once; then the spacing
/// applies again.
pub async fn as_many_as_the_burst_start_at_once(world: &World) {
    world.define(throttled(1, 100, 3)).await;
    let sent = flood(world, 6).await;
    let started = starts(world, 50, 8).await;
    assert_eq!(times(&started), [0, 0, 0, 100, 200, 300]);
    assert_eq!(ids(&started), sent);
    world.tick(10_000).await;
    flood(world, 5).await;
    assert_eq!(times(&starts(world, 50, 6).await), [0, 0, 0, 100, 200]);
}

/// spec M1: if the limit does not divide the period evenly, no run starts too early, and rounding
/// errors do not add up.
pub async fn an_uneven_rate_neither_hurries_nor_drifts(world: &World) {
    world.define(throttled(3, 1000, 1)).await;
    flood(world, 40).await;
    let first = world.now().micros();
    for n in 0..40_i64 {
        world.complete(&world.lease_one().await).await;
        assert_eq!(world.now().micros() - first, (n * 1_000_000 + 2) / 3, "start {n}");
        let rows = world.dump().await;
        let due = rows.iter().filter_map(|row| {
            let Row::Gate(gate) = row else { return None };
            gate.due
        });
        world.clock.set(due.min().expect("no turn is due"));
        world.sweep().await;
    }
}

/// spec M1: a turn is spent at the first lease of the run, so that starts never cluster.
pub async fn a_turn_counts_from_the_first_lease(world: &World) {
    world.define(throttled(1, 1000, 1)).await;
    let sent = flood(world, 3).await;
    // No engine leases for 5 s: only the first run has a turn meanwhile.
    world.tick(5000).await;
    let first = world.lease_one().await;
    assert_eq!(first.id, sent[0]);
    world.tick(999).await;
    assert!(world.lease_all().await.is_empty());
    world.tick(1).await;
    assert_eq!(world.lease_one().await.id, sent[1]);
}

/// spec M1, B75: after an outage, missed turns are not added to the later ones.
pub async fn after_an_outage_the_spacing_holds(world: &World) {
    world.define(throttled(1, 1000, 2)).await;
    let sent = flood(world, 7).await;
    assert_eq!(times(&starts(world, 100, 1).await), [0, 0]);
    world.pass(60_000);
    world.sweep().await;
    let started = starts(world, 100, 40).await;
    assert_eq!(
        times(&started),
        [0, 0, 1000, 2000, 3000],
        "expected the burst, then one start per second"
    );
    assert_eq!(ids(&started), sent[2..]);
}

/// spec M1, G9, B75: a run that has its turn and waits at a full gate spends the turn when it
/// starts.
pub async fn behind_a_full_gate_the_spacing_holds(world: &World) {
    let mut definition = throttled(1, 1000, 1);
    definition["concurrency"] = json!({ "limit": 1 });
    world.define(definition).await;
    let sent = flood(world, 4).await;
    let first = world.lease_one().await;
    // The second run has its turn and is queued for the slot. The others must not get turns
    // meanwhile.
    world.tick(10_000).await;
    assert!(world.lease_all().await.is_empty());
    world.complete(&first).await;
    let second = world.lease_one().await;
    assert_eq!(second.id, sent[1]);
    world.complete(&second).await;
    assert!(
        world.lease_all().await.is_empty(),
        "the turn must count from the start of the second run"
    );
    world.tick(999).await;
    assert!(world.lease_all().await.is_empty());
    world.tick(1).await;
    let third = world.lease_one().await;
    assert_eq!(third.id, sent[2]);
    world.complete(&third).await;
    world.check_holds().await;
}

/// spec M1: only first starts need a turn; wakes, retries and takeovers from lost workers do not.
pub async fn wakes_and_retries_need_no_turn(world: &World) {
    world.define(throttled(1, 1000, 1)).await;
    let sent = flood(world, 2).await;
    let run = world.lease_one().await;
    world.sleep(&run, "nap", 10).await;
    world.tick(10).await;
    let run = world.lease_one().await;
    world.back_off(&run, "step", 10).await;
    world.tick(10).await;
    let lost = world.engine(2);
    assert_eq!(lost.lease_one().await.id, run.id);
    world.lose(2).await;
    let run = world.lease_one().await;
    assert_eq!((run.id, run.fence), (sent[0], 4));
    world.tick(979).await;
    assert!(world.lease_all().await.is_empty(), "the second run started before its turn");
    world.tick(1).await;
    assert_eq!(
        world.lease_one().await.id,
        sent[1],
        "the second run must start exactly at its turn"
    );
}

/// spec M1, B74: every key has its own throttle.
pub async fn every_key_has_its_own_rate(world: &World) {
    let throttle = json!({ "limit": 1, "perMs": 1000, "key": "to" });
    world.define(json!({ "name": "call", "throttle": throttle })).await;
    let to = |to: &str| event("call", &json!({ "to": to }));
    world.post_all(vec![to("a"), to("a"), to("a"), to("b")]).await;
    assert_eq!(times(&starts(world, 500, 5).await), [0, 0, 1000, 2000]);
}

/// spec B76, A2: a run that is cancelled before its start never starts, and its turn goes to the
/// next run.
pub async fn a_run_cancelled_before_its_start_gives_its_turn_back(world: &World) {
    world.define(throttled(1, 1000, 1)).await;
    let sent = flood(world, 4).await;
    world.cancel(sent[0]).await.unwrap();
    let second = world.lease_one().await;
    assert_eq!(second.id, sent[1], "the cancelled run spent its turn");
    world.cancel(sent[2]).await.unwrap();
    let started = starts(world, 100, 30).await;
    assert_eq!(started, [(1000, sent[3])]);
    assert_eq!(world.state(sent[0]).await, "cancelled");
    assert_eq!(world.state(sent[2]).await, "cancelled");
}

/// spec M1, N10: a run that is paused before its start returns its turn and gets another one later.
pub async fn a_run_paused_before_its_start_gives_its_turn_back(world: &World) {
    world.define(throttled(1, 1000, 1)).await;
    let sent = flood(world, 2).await;
    world.pause(sent[0]).await.unwrap();
    assert_eq!(world.lease_one().await.id, sent[1]);
    world.resume(sent[0]).await.unwrap();
    assert_eq!(starts(world, 100, 20).await, [(1000, sent[0])]);
}

/// spec M1, P1: turns are given by rank, and priority does not change their spacing.
pub async fn turns_go_by_rank(world: &World) {
    let mut definition = throttled(1, 1000, 1);
    definition["version"] = json!(1);
    world.define(definition.clone()).await;
    let old = flood(world, 3).await;
    definition["version"] = json!(2);
    definition["priority"] = json!({ "shiftMs": 1 });
    world.define(definition).await;
    let new = flood(world, 2).await;
    let started = starts(world, 100, 50).await;
    assert_eq!(ids(&started), [old[0], new[0], new[1], old[1], old[2]]);
    assert_eq!(times(&started), [0, 1000, 2000, 3000, 4000]);
}

/// spec M1, controls: the rate of a new release applies from its commit on, counted from the last
/// start.
pub async fn a_new_rate_counts_from_the_last_start(world: &World) {
    let version = |number: u32, limit: u32, burst: u32| {
        let mut definition = throttled(limit, 1000, burst);
        definition["version"] = json!(number);
        definition
    };
    world.define(version(1, 1, 1)).await;
    let sent = flood(world, 20).await;
    assert_eq!(starts(world, 50, 2).await, [(0, sent[0])]);
    world.define(version(2, 10, 1)).await;
    world.sweep().await;
    assert_eq!(times(&starts(world, 50, 5).await), [0, 100, 200], "faster, at once");
    world.define(version(3, 2, 1)).await;
    world.sweep().await;
    assert_eq!(
        times(&starts(world, 50, 20).await),
        [450, 950],
        "the first start must be 500 ms after the last one, at -50 ms"
    );
    world.define(json!({ "name": "call", "version": 4 })).await;
    world.sweep().await;
    assert_eq!(world.lease_all().await.len(), 14, "a removed throttle must admit all runs");
}

/// spec M1: earlier starts count towards the new burst, too, however fast they were allowed to be,
/// and whether or not a run was queued at the release.
pub async fn a_slower_rate_remembers_the_burst_before_it(world: &World) {
    for waiting in [7, 0] {
        let world = world.in_workspace(&format!("w{waiting}"));
        let version = |number: u32, limit: u32| {
            let mut definition = throttled(limit, 1000, 5);
            definition["version"] = json!(number);
            definition
        };
        world.define(version(1, 10)).await;
        flood(&world, 5 + waiting).await;
        assert_eq!(world.lease_all().await.len(), 5);
        world.define(version(2, 1)).await;
        world.tick(400).await;
        flood(&world, 7).await;
        let started = times(&starts(&world, 100, 22).await);
        assert_eq!(
            started,
            [600, 1600],
            "the earlier starts must spend the burst, with {waiting} queued"
        );
    }
}

/// spec M1, B75, B84, B131: whichever engines post, sweep and lease, no interval has more starts
/// than allowed.
pub async fn several_engines_share_the_rate(world: &World) {
    world.define(throttled(5, 1000, 2)).await;
    let engines = [world.engine(11), world.engine(12), world.engine(13)];
    let mut state = 7_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let (mut started, mut sent) = (Vec::<Timestamp>::new(), 0);
    for _ in 0..400 {
        let engine = &engines[usize::try_from(random(3)).unwrap()];
        if sent < 40 && random(3) == 0 {
            engine.send("call", json!({})).await;
            sent += 1;
        }
        world.pass(random(120));
        if random(4) > 0 {
            engine.sweep().await;
        }
        let runs: Vec<Run> = engine.lease(1 + u32::try_from(random(3)).unwrap()).await;
        started.extend(runs.iter().map(|_| world.now()));
    }
    assert_eq!(started.len(), 40, "none is lost");
    for (n, from) in started.iter().enumerate() {
        for (m, to) in started.iter().enumerate().skip(n) {
            let window = to.micros() - from.micros();
            let allowed = 2 + window * 5 / 1_000_000;
            assert!(
                i64::try_from(m - n + 1).unwrap() <= allowed,
                "too many starts: {n} to {m} within {window} µs"
            );
        }
    }
}

/// spec M1, why: `why` predicts the turn of each run behind a burst exactly.
pub async fn why_tells_the_turns_behind_a_burst(world: &World) {
    world.define(throttled(1, 1000, 3)).await;
    let sent = flood(world, 6).await;
    assert_eq!(world.lease_all().await.len(), 3, "the burst");
    let began = world.now();
    for (n, run) in (1_u64..).zip(&sent[3..]) {
        let why = why(&*world.store, &world.ws, *run).await.expect("the store works").unwrap();
        let turn = began.plus_ms(n * 1000);
        assert_eq!(why.earliest, Some(turn), "{n}: {}", why.sentence);
        let gate = &why.gates[0];
        assert_eq!((gate.at, gate.place), (Some(turn), usize::try_from(n).ok()), "{gate:?}");
        assert_eq!(gate.limit, "1 in 1000 ms, 3 at once");
    }
    for run in &sent[3..] {
        world.tick(999).await;
        assert!(world.lease_all().await.is_empty(), "a run started before its turn");
        world.tick(1).await;
        let started: Vec<_> = world.lease_all().await.iter().map(|run| run.id).collect();
        assert_eq!(started, [*run], "and then");
    }
}

/// spec M1, why: a run that was admitted and has not started uses a turn of the burst. `why` of the
/// runs behind it counts these turns, and the predicted times are correct.
pub async fn why_counts_those_let_through_and_not_started(world: &World) {
    const BURST: u32 = 4;
    for (limit, let_through) in [(1, 1), (1, 2), (1, 3), (3, 1), (3, 2), (3, 3)] {
        let world = world.in_workspace(&format!("{limit} {let_through}"));
        world.define(throttled(limit, 3000, BURST)).await;
        let sent = flood(&world, BURST + 3).await;
        let started = world.lease(BURST - let_through).await;
        assert_eq!(started.len(), (BURST - let_through) as usize);
        let gap = u64::from(3000 / limit);
        let began = world.now();
        let turns = (1_u64..).map(|n| began.plus_ms(n * gap));
        for (n, (run, turn)) in sent[BURST as usize..].iter().zip(turns.clone()).enumerate() {
            let why = why(&*world.store, &world.ws, *run).await.expect("the store works").unwrap();
            let at = (why.earliest, why.gates[0].at, why.gates[0].place);
            let expected = (Some(turn), Some(turn), Some(n + 1));
            assert_eq!(at, expected, "{limit}, {let_through}: {}", why.sentence);
        }
        // The admitted runs start late, which does not delay the runs behind them.
        world.pass(gap / 2);
        assert_eq!(world.lease_all().await.len(), let_through as usize);
        for (run, turn) in sent[BURST as usize..].iter().zip(turns) {
            world.clock.set(Timestamp::from_micros(turn.micros() - 1));
            world.sweep().await;
            assert!(
                world.lease_all().await.is_empty(),
                "{limit}, {let_through}: a run started early"
            );
            world.clock.set(turn);
            world.sweep().await;
            let leased: Vec<_> = world.lease_all().await.iter().map(|run| run.id).collect();
            assert_eq!(leased, [*run], "{limit}, {let_through}: wrong run at its turn");
        }
    }
}
