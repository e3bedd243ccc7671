//! The simulator on many seeds: nothing that must always hold is ever broken, everything finishes
//! once the faults stop, and every bug that is planted is found.

use std::{env, panic, thread};

use tidegate_testkit::sim::{Backend, Progress, simulate};

/// Seeds on the memory store, and how many a full run plays.
const MEMORY: [u64; 2] = [1000, 100_000];

/// Seeds on SQLite, and how many a full run plays.
const SQLITE: [u64; 2] = [100, 10_000];

/// Every seed that ever failed, whatever the reason was: each is one more world worth keeping.
const FAILED: &[u64] = &[
    3, 18, 70, 121, 455, 477, 554, 620, 717, 751, 795, 872, 898, 1096, 1176, 1230, 1258, 1286,
    1389, 1458, 1470, 1560, 1772, 1795, 1902, 1927, 1705, 1714, 1857, 2175, 2252, 2902, 2977, 2988,
    3067, 3358, 3404, 3600, 3753, 3961, 4137, 1_049_740, 1_053_707, 5_008_602, 50_000_583,
    50_001_090, 60_020_316, 60_023_499, 27, 30, 164, 279, 2815, 2982, 70_070_931,
];

/// The seed that `TIDEGATE_SIM_SEED` names, with its whole trace if it fails.
#[test]
fn one_seed() {
    let seed = env::var("TIDEGATE_SIM_SEED").map(|seed| seed.parse().expect("a number"));
    let sqlite = env::var("TIDEGATE_SIM_STORE").is_ok_and(|store| store == "sqlite");
    check(seed.unwrap_or(1), if sqlite { Backend::Sqlite } else { Backend::Memory });
}

#[test]
fn nothing_is_broken_on_memory() {
    on_all_cores(seeds(MEMORY), Backend::Memory);
}

#[test]
fn nothing_is_broken_on_sqlite() {
    on_all_cores(seeds(SQLITE), Backend::Sqlite);
}

#[test]
fn seeds_that_failed_before_pass() {
    for seed in FAILED {
        check(*seed, Backend::Memory);
    }
}

#[test]
fn a_seed_gives_the_same_trace_every_time_and_on_every_store() {
    for seed in 0..40 {
        let [first, second] = [Backend::Memory; 2].map(|store| simulate(seed, store, false).hash);
        assert_eq!(first, second, "seed {seed} twice");
    }
    for seed in 0..10 {
        let [memory, sqlite] =
            [Backend::Memory, Backend::Sqlite].map(|store| simulate(seed, store, false).hash);
        assert_eq!(memory, sqlite, "seed {seed} on memory and on SQLite");
    }
}

/// Every planted bug is found within so many seeds; `TIDEGATE_SIM_BUG` names one of them.
#[cfg(feature = "planted")]
#[test]
fn every_planted_bug_is_found() {
    use tidegate_core::planted::{Bug, plant};

    /// The rarest needs a release, a sleeper and a newcomer on one key.
    const WITHIN: u64 = 2000;

    let hunt = |bug: Bug| {
        plant(Some(bug));
        // A broken premise may also show itself as a panic in the core.
        let caught = |seed| {
            let outcome = panic::catch_unwind(|| simulate(seed, Backend::Memory, false));
            let violation = outcome.map(|outcome| outcome.violation);
            match &violation {
                Ok(Some(it)) => eprintln!("{bug:?}: {} in seed {seed}: {}", it.number, it.text),
                Err(_) => eprintln!("{bug:?}: panic in seed {seed}"),
                Ok(None) => {}
            }
            !matches!(violation, Ok(None))
        };
        let found = (0..WITHIN).any(caught);
        plant(None);
        found
    };
    let only = env::var("TIDEGATE_SIM_BUG").ok();
    let wanted = |bug: &Bug| only.as_ref().is_none_or(|only| format!("{bug:?}") == *only);
    let bugs: Vec<Bug> = Bug::ALL.iter().copied().filter(wanted).collect();
    assert!(!bugs.is_empty(), "there is no such bug");
    let missed: Vec<Bug> = thread::scope(|scope| {
        let halves = bugs.chunks(bugs.len().div_ceil(2)).map(|bugs| {
            scope.spawn(move || bugs.iter().copied().filter(|bug| !hunt(*bug)).collect::<Vec<_>>())
        });
        let halves: Vec<_> = halves.collect();
        halves.into_iter().flat_map(|half| half.join().expect("the hunt ends")).collect()
    });
    assert!(Bug::ALL.len() >= 20);
    assert!(missed.is_empty(), "not found within {WITHIN} seeds: {missed:?}");
}

/// How many seeds to play, from `TIDEGATE_SIM_FROM` on: `TIDEGATE_SIM_SEEDS`, else a few, else many
/// in a full run.
fn seeds([some, full]: [u64; 2]) -> u64 {
    match env::var("TIDEGATE_SIM_SEEDS") {
        Ok(seeds) => seeds.parse().expect("TIDEGATE_SIM_SEEDS is a number"),
        Err(_) if env::var("TIDEGATE_TEST_FULL").is_ok() => full,
        Err(_) => some,
    }
}

fn on_all_cores(seeds: u64, backend: Backend) {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let from = env::var("TIDEGATE_SIM_FROM").map_or(0, |from| from.parse().expect("a number"));
    let progress = &Progress::new(seeds);
    thread::scope(|scope| {
        for core in 0..cores {
            scope.spawn(move || {
                for seed in (from..from + seeds).skip(core).step_by(cores) {
                    check(seed, backend);
                    progress.count();
                }
            });
        }
    });
}

/// Plays a seed; if something does not hold, shows what, the end of the trace, and how to see it
/// again.
fn check(seed: u64, backend: Backend) {
    let played = panic::catch_unwind(|| simulate(seed, backend, false).violation);
    let broken = match played {
        Ok(None) => return,
        Ok(Some(violation)) => format!("{} does not hold: {}", violation.number, violation.text),
        Err(_) => "the core panicked".to_owned(),
    };
    let trace = panic::catch_unwind(|| simulate(seed, backend, true).trace).unwrap_or_default();
    let store = if backend == Backend::Sqlite { "TIDEGATE_SIM_STORE=sqlite " } else { "" };
    panic!(
        "{broken}\n{}\n{store}TIDEGATE_SIM_SEED={seed} cargo test -p tidegate-testkit --test sim one_seed",
        trace[trace.len().saturating_sub(60)..].join("\n"),
    );
}
