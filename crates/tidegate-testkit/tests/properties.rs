//! Property tests: random definitions and operations run on the real store and on the reference (a
//! second implementation of flow control), and the results are compared.
//!
//! Each case draws which controls are on, short times, few keys, and a list of operations. After
//! each operation the answers, states, holders, queues and ready runs must be the same on both
//! sides. A failure prints the smallest failing case, and its seed is stored in
//! `properties.proptest-regressions`; every later run of the tests begins with the stored seeds.

mod worlds;

use proptest::{
    prelude::*,
    test_runner::{FileFailurePersistence, RngSeed},
};
use serde_json::{Value, json};

use worlds::{Case, Change, Field, Op, case, check};

/// Returns the configuration: as many cases as fit into about twenty seconds, the same in every
/// run, so that a change does not fail for an earlier fault. `PROPTEST_CASES` runs that many new
/// ones.
fn config() -> ProptestConfig {
    let more = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: more.unwrap_or(800),
        rng_seed: if more.is_some() { RngSeed::Random } else { RngSeed::Fixed(1) },
        max_shrink_iters: 20_000,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource(
            "proptest-regressions",
        ))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_core_decides_as_the_reference_does(case in case()) {
        if let Err(difference) = check(&case) {
            return Err(TestCaseError::fail(difference));
        }
    }
}

// The following tests are failures that the property test has found, in their smallest form. Random
// cases would rarely find them again.

/// spec F4: a holder that is cancelled counts as ended, even before its worker has stopped.
#[test]
fn a_held_fold_flushes_when_its_holder_is_cancelled() {
    let quiet = json!({
        "name": "w0", "singleton": { "mode": "skip" }, "debounce": { "periodMs": 10 },
    });
    let post = Op::Post { name: "w0", a: Field::One, b: Field::One };
    let ops = vec![post.clone(), Op::Tick(10), Op::Lease(1), post, Op::Tick(10), Op::Cancel(0)];
    agree(vec![quiet], Vec::new(), ops);
}

/// spec controls: with the policy `debounce`, later requests are merged into a request until it
/// starts, also while it waits until the run that it replaced has stopped.
#[test]
fn a_debounced_request_coalesces_while_the_one_it_replaced_is_stopped() {
    let action = json!({
        "flow": "f", "name": "x", "singleton": {},
        "concurrency": { "policy": "debounce", "periodMs": 10 },
    });
    let call = |session| Op::Call { action: "x", session, a: Field::One };
    let ops = vec![call(None), Op::Lease(1), call(Some("s")), Op::Tick(10), call(Some("s"))];
    agree(vec![action], Vec::new(), ops);
}

/// spec N31: a request leaves the queue after `maxWaitMs`, even if a debounce window has delayed it
/// before.
#[test]
fn a_debounced_request_gives_up_its_place_in_the_queue() {
    let action = json!({
        "flow": "f", "name": "x", "debounce": { "periodMs": 10 },
        "concurrency": { "policy": "queue", "maxWaitMs": 20 },
    });
    let call = Op::Call { action: "x", session: Some("s"), a: Field::One };
    let ops = vec![call.clone(), Op::Tick(10), call, Op::Tick(10), Op::Tick(20)];
    agree(vec![action], Vec::new(), ops);
}

/// spec F4, L19: a fold that a full queue has refused waits until the gate has room. A holder that
/// is being stopped still takes its slot; before, the sweep tried the fold again without end.
#[test]
fn a_fold_refused_by_a_full_queue_waits_until_the_holder_has_stopped() {
    let bounded = json!({
        "name": "w0", "debounce": { "periodMs": 10 },
        "concurrency": { "limit": 1, "queue": { "maxWaiting": 0 } },
    });
    let post = Op::Post { name: "w0", a: Field::One, b: Field::One };
    let ops = vec![post.clone(), Op::Tick(10), Op::Lease(1), post, Op::Tick(10), Op::Cancel(0)];
    agree(vec![bounded], Vec::new(), ops);
}

/// spec F4, L19: a cost at another limit does not keep a refused fold waiting.
#[test]
fn a_refused_fold_is_flushed_when_the_limit_that_refused_it_has_room() {
    let costly = json!({
        "name": "w0", "debounce": { "periodMs": 10 },
        "concurrency": [{ "limit": 2, "queue": { "maxWaiting": 0 } }, { "pool": "px", "cost": "c" }],
    });
    let post = Op::Post { name: "w0", a: Field::One, b: Field::One };
    let pairs = [post.clone(), Op::Tick(10), post.clone(), Op::Tick(10), post, Op::Tick(10)];
    let ops = pairs.into_iter().chain([Op::Lease(1), Op::Complete(0)]).collect();
    agree(vec![costly], Vec::new(), ops);
}

/// spec G3, L5: a run whose worker died gets its slots back before runs of a worse rank, also where
/// its gates are not taken in the order of their keys.
#[test]
fn a_run_that_lost_its_worker_is_not_overtaken_at_a_later_gate() {
    let pooled = json!({
        "name": "w0", "concurrency": [{ "limit": 1 }, { "pool": "px", "key": "a" }],
    });
    let post = Op::Post { name: "w0", a: Field::One, b: Field::One };
    agree(vec![pooled], Vec::new(), vec![post.clone(), Op::Lease(1), post, Op::Lose]);
}

/// spec A2, L8: an event whose cost cannot be read or never fits does not flush the window, also if
/// it makes a run at once.
#[test]
fn a_rejected_event_does_not_flush_the_window() {
    let window = json!({
        "name": "w0", "debounce": { "edge": "both", "keep": "all", "periodMs": 13 },
        "concurrency": { "limit": 2, "cost": "c" },
    });
    let mut ops = vec![Op::Tick(1); 10];
    // The costs are 2, 1, a text and 3.
    for n in [1, 6, 7, 8] {
        ops[n] = Op::Post { name: "w0", a: Field::One, b: Field::One };
    }
    agree(vec![window], Vec::new(), ops);
}

/// spec A2, L22: a window without room for an event is flushed before it, also if the run of the
/// window then refuses the event.
#[test]
fn an_event_that_is_skipped_keeps_the_flush_before_it() {
    let window = json!({
        "name": "w0", "singleton": { "key": "a", "mode": "skip" },
        "debounce": { "edge": "both", "keep": "all", "key": "a", "periodMs": 13 },
        "concurrency": { "pool": "px", "key": "a", "cost": "c" },
    });
    let post = Op::Post { name: "w0", a: Field::One, b: Field::One };
    let mut ops = vec![Op::Tick(1); 23];
    // The costs follow from the numbers of the events: 1, 1 and 2, of a limit of 2.
    for n in [12, 20, 21] {
        ops[n] = post.clone();
    }
    (ops[13], ops[14]) = (Op::Lease(1), Op::Cancel(0));
    agree(vec![window], Vec::new(), ops);
}

/// spec L8: a newer request that joins a waiting run brings its own cost, also if its key at the
/// gate is another one. Before, such a run took one unit.
#[test]
fn a_request_that_joins_a_run_brings_its_cost_under_another_key() {
    let action = json!({
        "flow": "f", "name": "x",
        "concurrency": [
            { "policy": "debounce", "periodMs": 15 },
            { "limit": 2, "key": "input.a", "cost": "input.c" },
        ],
    });
    let call = |a| Op::Call { action: "x", session: Some("s"), a };
    let other = Op::Call { action: "x", session: Some("t"), a: Field::One };
    let mut ops = vec![Op::Tick(1); 20];
    // The costs are 2, 1 and 2.
    (ops[1], ops[2], ops[3]) = (other, Op::Tick(20), Op::Lease(1));
    (ops[9], ops[10]) = (call(Field::One), Op::Tick(20));
    ops[12] = call(Field::TextOne);
    agree(vec![action], Vec::new(), ops);
}

/// spec L7: a pause of a pool does not change which cost of a step fits. Before, a step whose cost
/// was above the limit parked.
#[test]
fn a_step_above_the_limit_fails_while_the_pool_is_paused() {
    let plain = json!({ "name": "w0" });
    let pause = Op::Override { goal: 1, key: None, change: Change::Pause(true), ends: None };
    let enter = Op::Enter { at: 0, key: Field::One, value: Field::One, cost: 3, parks: true };
    let post = Op::Post { name: "w0", a: Field::One, b: Field::One };
    agree(vec![plain], Vec::new(), vec![post, Op::Lease(1), pause, enter]);
}

/// spec G4, L5: the end of a run hands its own gates and those of its steps on together. Before, a
/// run that waited for the step's place was passed over at the gate after it.
#[test]
fn a_run_that_waits_for_the_place_of_a_step_is_not_passed_over() {
    let pooled = json!({
        "name": "w0", "concurrency": [{ "limit": 1 }, { "pool": "px", "key": "a" }],
    });
    let post = |a| Op::Post { name: "w0", a, b: Field::One };
    let enter = Op::Enter { at: 0, key: Field::One, value: Field::One, cost: 2, parks: false };
    for ends in [Op::Complete(0), Op::Lose] {
        let before = vec![post(Field::TextOne), Op::Lease(1), enter.clone()];
        let after = vec![post(Field::One), post(Field::TextOne), ends];
        agree(vec![pooled.clone()], Vec::new(), [before, after].concat());
    }
}

/// A release reads all live runs in a few rounds, not in several rounds for each run.
#[test]
fn a_release_takes_many_live_runs_along() {
    let version = |version| {
        let handoff = json!({ "type": "singleton", "onNewVersion": "drain" });
        json!({ "name": "w0", "version": version, "handoff": handoff })
    };
    let mut ops = vec![Op::Post { name: "w0", a: Field::One, b: Field::One }; 40];
    ops.push(Op::Release);
    agree(vec![version(1)], vec![version(2)], ops);
}

/// spec G4: a run that is queued again gets its own places back before the runs that wait for the
/// place of its step, also those of a better rank.
#[test]
fn a_run_that_lost_its_worker_is_not_overtaken_from_the_place_of_its_step() {
    let pool = |cost: u32| json!([{ "pool": "px", "cost": cost }, { "pool": "px", "key": "b" }]);
    let costly = json!({ "name": "w0", "concurrency": pool(2) });
    let urgent = json!({ "name": "w1", "concurrency": pool(1), "priority": { "shiftMs": 10 } });
    let enter = Op::Enter { at: 0, key: Field::True, value: Field::One, cost: 2, parks: false };
    let post = |name, b| Op::Post { name, a: Field::One, b };
    let before = vec![post("w0", Field::One), Op::Lease(1), enter];
    let after = vec![post("w1", Field::True), Op::Lose];
    agree(vec![costly, urgent], Vec::new(), [before, after].concat());
}

/// spec L21: a request that displaces the holder of a session takes its slot, also before a request
/// that waits and has inherited a better rank.
#[test]
fn the_latest_request_inherits_the_slot_of_the_one_before() {
    let led = json!({
        "flow": "f", "name": "x", "singleton": {}, "concurrency": "queue",
        "debounce": { "edge": "leading", "periodMs": 13 },
    });
    let latest = json!({ "flow": "f", "name": "y", "concurrency": "latest" });
    let call = |action, session| Op::Call { action, session, a: Field::One };
    let ops = vec![
        call("x", None),
        call("y", Some("s")),
        Op::Tick(13),
        call("x", Some("s")),
        call("y", Some("s")),
    ];
    agree(vec![led, latest], Vec::new(), ops);
}

/// spec L12, L23: a deferred event has the number of its delivery, so that it sets the limit of an
/// event that was posted after it and delivered before it.
#[test]
fn a_deferred_event_sets_the_limit_of_an_event_delivered_before_it() {
    let window = json!({
        "name": "w0", "debounce": { "key": "b", "periodMs": 10 },
        "concurrency": { "limit": { "from": "c", "min": 1, "max": 2 } },
    });
    // The limits are 2 of the deferred event and 1 of the posted one, whose window is flushed last.
    let mut ops = vec![Op::Tick(1); 30];
    ops[8] = Op::Defer { ms: 1, name: "w0", a: Field::One };
    ops[9] = Op::Post { name: "w0", a: Field::One, b: Field::TextOne };
    agree(vec![window], Vec::new(), ops);
}

/// spec L12, L19: a fold whose own number lowers the limit waits until the gate is empty. Before, the
/// gate seemed to have room, and the sweep tried the fold again without end.
#[test]
fn a_refused_fold_that_lowers_the_limit_waits_until_the_gate_is_empty() {
    let window = json!({
        "name": "w0", "debounce": { "periodMs": 10 },
        "concurrency": {
            "limit": { "from": "c", "min": 1, "max": 3 }, "queue": { "maxWaiting": 0 },
        },
    });
    let post = Op::Post { name: "w0", a: Field::One, b: Field::One };
    let mut ops = vec![Op::Tick(20); 13];
    // The limits are 3 of the first two events and 1 of the third.
    (ops[2], ops[5], ops[7]) = (post.clone(), post.clone(), Op::Lease(2));
    (ops[9], ops[11], ops[12]) = (post, Op::Complete(0), Op::Complete(0));
    agree(vec![window], Vec::new(), ops);
}

fn agree(definitions: Vec<Value>, later: Vec<Value>, ops: Vec<Op>) {
    let case = Case { definitions, later, ops, fair: false };
    if let Err(difference) = check(&case) {
        panic!("{difference}{case:?}");
    }
}
