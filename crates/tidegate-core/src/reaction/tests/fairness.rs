use std::collections::BTreeMap;

use super::*;

/// The bound that the module's documentation states: ⌈streams with events / limit⌉ claims.
///
/// spec B217, N62
#[test]
fn a_stream_with_work_is_claimed_within_the_bound_however_busy_the_others_are() {
    for (streams, limit) in [(7_usize, 3_u32), (5, 1), (8, 8), (9, 4)] {
        let bound = streams.div_ceil(limit as usize);
        for pause_ms in [0, 1] {
            check(streams, limit, bound, pause_ms);
        }
    }
}

/// Checks the bound while all streams always have events, and each lease processes one event.
fn check(streams: usize, limit: u32, bound: usize, pause_ms: u64) {
    let mut scene = Scene::plain();
    let names: Vec<_> = (0..streams).map(|n| format!("s{n}")).collect();
    for name in &names {
        scene.commit(name, 2);
    }
    let mut waited: BTreeMap<String, usize> = names.iter().map(|it| (it.clone(), 0)).collect();
    for round in 0..40 {
        scene.world.pass_ms(pause_ms);
        for count in waited.values_mut() {
            *count += 1;
        }
        for leased in scene.claim_all(ANN, limit).leased {
            let count = waited.insert(leased.lease.stream.clone(), 0).unwrap();
            assert!(count <= bound, "a stream was claimed after {count} claims, not {bound}");
            scene.world.pass_ms(pause_ms);
            if round % 3 == 0 {
                scene.fail(&leased, leased.at + 1);
            } else {
                scene.ack(&leased, leased.at + 1);
            }
            scene.commit(&leased.lease.stream, 2);
        }
        let most = waited.values().max().unwrap();
        assert!(*most < bound, "a stream has waited for {most} claims, the bound is {bound}");
    }
}

#[test]
fn a_stream_that_catches_up_again_and_again_does_not_go_first_again() {
    let mut scene = Scene::plain();
    scene.commit("a", 1);
    scene.commit("b", 1);
    for stream in ["a", "b", "a", "b"] {
        let leased = scene.claim(ANN);
        assert_eq!(leased.lease.stream, stream);
        scene.ack(&leased, leased.want);
        scene.commit(stream, 1);
    }
}

#[test]
fn a_stream_with_work_left_waits_behind_what_came_while_it_was_served() {
    let mut scene = Scene::plain();
    scene.commit("a", 2);
    let leased = scene.claim(ANN);
    scene.world.pass_ms(1);
    scene.commit("b", 1);
    scene.world.pass_ms(1);
    scene.ack(&leased, 0);
    assert_eq!(scene.claim_names(ANN, 9), ["b", "a"]);
}

#[test]
fn a_lost_lease_does_not_go_first_again() {
    let mut scene = Scene::plain();
    scene.commit("a", 1);
    let lost = scene.claim(ANN);
    scene.world.pass_ms(1);
    scene.commit("b", 1);
    scene.world.now = lost.until;
    // `a` has waited longer than `b`, so it is claimed first; after that it is behind `b`.
    assert_eq!(scene.claim_names(ANN, 1), ["a"]);
    scene.world.pass_ms(30_000);
    assert_eq!(scene.claim_names(ANN, 1), ["b"]);
}
