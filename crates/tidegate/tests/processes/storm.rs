//! Storms: processes commit concurrently to the same streams, and no event is lost.

use std::{env, time::Instant};

use crate::{
    child::Role,
    journal::wait_until,
    ledger::{Ledger, Tried},
    place::{Place, block_on},
    process::Scene,
    readers::LEASE,
    writers::{BEGIN, OVER},
};

const PROCESSES: usize = 8;

/// Returns whether the long tests are enabled.
pub(crate) fn full() -> bool {
    env::var_os("TIDEGATE_TEST_FULL").is_some()
}

/// spec B183–B186, B189: many processes commit to many streams. Every reported event is stored, and
/// a process that reads at the same time gets every event once, in order.
pub(crate) fn judge_many_streams() {
    let (commits, streams) = if full() { (1000, 80) } else { (40, 20) };
    let role = Role::Committer { commits, streams };
    let Some((ledger, tried)) = storm(role, PROCESSES * commits) else { return };
    assert_eq!(ledger.streams.len(), streams);
    assert_eq!((tried.done, tried.unreported), (PROCESSES * commits, 0));
}

/// spec B186–B188, B191: each action on one stream is decided on the state that the earlier actions
/// left, and all of them succeed in the end.
pub(crate) fn judge_one_stream() {
    let acts = if full() { 100 } else { 12 };
    let Some((ledger, tried)) = storm(Role::Actor { acts }, PROCESSES * acts) else { return };
    assert_eq!(ledger.streams.len(), 1);
    assert_eq!((tried.done, tried.unreported), (PROCESSES * acts, 0));
    assert!(tried.conflicts > 0, "no action had a conflict, so the test shows nothing");
}

/// Starts writers of one kind at the same time, and one follower, and checks the result.
fn storm(role: Role, events: usize) -> Option<(Ledger, Tried)> {
    let place = Place::postgres()?;
    let scene = Scene::new();
    let start = |role, name: &str| scene.start(role, name, &place, LEASE, None);
    let names: Vec<_> = (0..PROCESSES).map(|n| format!("p{n}")).collect();
    let writers: Vec<_> = names.iter().map(|name| start(role, name)).collect();
    let follower = start(Role::Follower, "follower");
    let all = || scene.journal.lines().iter().filter(|line| line.what == "ready").count();
    wait_until(|| all() > PROCESSES, || scene.journal.told());
    let begun = Instant::now();
    scene.open_door(BEGIN);
    for writer in writers {
        assert!(writer.wait().success(), "a writer has failed:\n{}", scene.journal.told());
    }
    let took = begun.elapsed();
    scene.open_door(OVER);
    assert!(follower.wait().success(), "the follower has failed:\n{}", scene.journal.told());

    let (ledger, lines) = (Ledger::of(&block_on(place.rows())), scene.journal.lines());
    let tried = ledger.judge(&lines);
    let seen = lines.iter().filter_map(|line| line.after("seen"));
    let seen: Vec<usize> = seen.map(|words| words[0].parse().unwrap()).collect();
    assert!(seen.iter().copied().eq(1..=events), "the follower has skipped or repeated events");
    eprintln!("{role:?} x {PROCESSES}: {tried:?} in {took:.1?}");
    scene.clear();
    Some((ledger, tried))
}
