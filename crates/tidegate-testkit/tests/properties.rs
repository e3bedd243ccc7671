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

use worlds::{Case, Field, Op, case, check};

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

fn agree(definitions: Vec<Value>, later: Vec<Value>, ops: Vec<Op>) {
    let case = Case { definitions, later, ops };
    if let Err(difference) = check(&case) {
        panic!("{difference}{case:?}");
    }
}
