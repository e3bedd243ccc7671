//! Runs the simulator with many seeds: all invariants must hold after every commit, and all runs
//! must end after the faults stop. `scripts/mutants` shows which bugs it finds.

use std::{collections::BTreeMap, env, panic, sync::Mutex, thread};

use tidegate_testkit::sim::{Backend, Progress, simulate};

/// Number of seeds on the memory store, by default and with `TIDEGATE_TEST_FULL`.
const MEMORY: [u64; 2] = [1000, 100_000];

/// Number of seeds on SQLite, by default and with `TIDEGATE_TEST_FULL`.
const SQLITE: [u64; 2] = [100, 10_000];

/// Number of failed seeds after which a test ends.
const MOST_FAILURES: usize = 20;

/// All seeds that have ever failed, for any reason. They are tested again every time.
const FAILED: &[u64] = &[
    3,
    18,
    70,
    121,
    455,
    477,
    554,
    620,
    717,
    751,
    795,
    872,
    898,
    1096,
    1176,
    1230,
    1258,
    1286,
    1389,
    1458,
    1470,
    1560,
    1772,
    1795,
    1902,
    1927,
    1705,
    1714,
    1857,
    2175,
    2252,
    2902,
    2977,
    2988,
    3067,
    3358,
    3404,
    3600,
    3753,
    3961,
    4137,
    1_049_740,
    1_053_707,
    5_008_602,
    50_000_583,
    50_001_090,
    60_020_316,
    60_023_499,
    27,
    30,
    164,
    279,
    2815,
    2982,
    70_070_931,
    300_007_601,
    400_011_455,
    257,
    481,
    663,
    1223,
    610_000_418,
    610_000_523,
    610_003_567,
    610_009_035,
    1_900_006_400,
    1_900_031_284,
    1_900_032_703,
    2_100_003_192,
    2_100_009_190,
    2_200_069_454,
    2_300_016_201,
];

/// Simulates the seed in `TIDEGATE_SIM_SEED`, and prints the end of its trace if it fails.
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
        assert_eq!(first, second, "seed {seed}: two simulations have different traces");
    }
    for seed in 0..10 {
        let [memory, sqlite] =
            [Backend::Memory, Backend::Sqlite].map(|store| simulate(seed, store, false).hash);
        assert_eq!(memory, sqlite, "seed {seed}: memory and SQLite have different traces");
    }
}

/// Returns the number of seeds to simulate: `TIDEGATE_SIM_SEEDS` if it is set, `full` with
/// `TIDEGATE_TEST_FULL`, otherwise `some`.
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
    let (progress, failures) = (&Progress::new(seeds), &Mutex::new(BTreeMap::new()));
    thread::scope(|scope| {
        for core in 0..cores {
            scope.spawn(move || {
                for seed in (from..from + seeds).skip(core).step_by(cores) {
                    let failed = panic::catch_unwind(|| check(seed, backend)).err();
                    let mut failures = failures.lock().expect("no thread panics here");
                    failures.extend(failed.map(|failed| (seed, failed)));
                    if failures.len() >= MOST_FAILURES {
                        return;
                    }
                    drop(failures);
                    progress.count();
                }
            });
        }
    });
    let failures = std::mem::take(&mut *failures.lock().expect("no thread panics here"));
    let seeds: Vec<u64> = failures.keys().copied().collect();
    if let Some((_, first)) = failures.into_iter().next() {
        let first = first.downcast::<String>().map(|text| *text).unwrap_or_default();
        panic!("seeds that failed: {seeds:?}\n{first}");
    }
}

/// Simulates a seed. A failure prints the violation, the end of the trace, and the command that
/// repeats the simulation.
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
