//! The real engine under the simulator: several engines in one thread, on one store and on virtual
//! time. Meanwhile commits fail, answers are lost, leases cannot be renewed, processes crash and
//! restart, and operators intervene. The simulator's judge in `tidegate-testkit` checks every
//! commit and every step closure. At the end the faults stop and all runs must finish.
//!
//! There are three kinds of simulations. In `memory` the store does not fail by itself, and the
//! code of handlers does not change. In `changed` every process may have another build of the code,
//! newer or older: steps are renamed, inserted and removed, with and without `ctx.patched`. In
//! `sqlite` the rows are in a file; transactions are rolled back, and sometimes the whole machine
//! stops: all engines are dropped, and the file is closed, or copied as a crash would leave it, and
//! reopened. After every reopening and at the end, the file is compared with the commits that the
//! judge has seen, and checked by `doctor`.
//!
//! A seed determines everything: it gives the same trace every time. The simulator of commands
//! (`crates/tidegate-testkit/tests/sim.rs`) runs many more seeds; this one finds defects in the
//! engine itself.

#![allow(clippy::wildcard_enum_match_arm, reason = "the player looks at the rows it is about")]

mod code;
mod disk;
mod door;
mod handlers;
mod history;
mod people;
mod play;
mod sessions;
mod world;

use std::{collections::BTreeMap, env, panic, sync::Mutex, thread};

use tidegate_testkit::sim::{Progress, check::Violation};

use self::play::{Kind, Played, play};

/// Number of seeds, and number of seeds of a full test.
const SEEDS: [u64; 2] = [200, 10_000];

/// The same numbers for SQLite and for changed code.
const MORE_SEEDS: [u64; 2] = [50, 5000];

/// Seeds that have failed once, for whatever reason. They are tested always.
const FAILED: &[(Kind, u64)] = &[(Kind::Sqlite, 8)];

/// Kinds of simulations, by their names in `TIDEGATE_SIM_WORLD`.
const KINDS: &[(&str, Kind)] =
    &[("memory", Kind::Memory), ("changed", Kind::Changed), ("sqlite", Kind::Sqlite)];

/// Runs the seed that `TIDEGATE_SIM_SEED` names. If it fails, prints the end of its trace.
#[test]
fn one_seed() {
    let seed = env::var("TIDEGATE_SIM_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let name = env::var("TIDEGATE_SIM_WORLD").unwrap_or_else(|_| "memory".to_owned());
    let kind = KINDS.iter().find(|(word, _)| *word == name);
    let (_, kind) = kind.unwrap_or_else(|| panic!("TIDEGATE_SIM_WORLD must be one of {KINDS:?}"));
    check(*kind, seed);
}

#[test]
fn nothing_is_broken_by_real_engines() {
    check_all(Kind::Memory, SEEDS);
}

#[test]
fn nothing_is_broken_by_changed_code_in_real_engines() {
    check_all(Kind::Changed, MORE_SEEDS);
}

#[test]
fn nothing_is_broken_by_real_engines_on_sqlite() {
    check_all(Kind::Sqlite, MORE_SEEDS);
}

#[test]
fn seeds_that_failed_before_pass() {
    for (kind, seed) in FAILED {
        check(*kind, *seed);
    }
}

#[test]
fn a_seed_gives_the_same_trace_every_time() {
    for (name, kind) in KINDS {
        for seed in 0..if *kind == Kind::Memory { 10 } else { 5 } {
            let [first, second] = [play(*kind, seed, true), play(*kind, seed, true)];
            let differs = first.trace.iter().zip(&second.trace).find(|(one, two)| one != two);
            assert_eq!(
                first.hash, second.hash,
                "{name}: two runs of seed {seed} differ: {differs:?}"
            );
        }
    }
}

/// Runs the seeds that the environment selects, or this number of seeds.
fn check_all(kind: Kind, seeds: [u64; 2]) {
    let number = |name| env::var(name).ok().map(|text| text.parse().expect("a number"));
    let full = usize::from(env::var("TIDEGATE_TEST_FULL").is_ok());
    let seeds: u64 = number("TIDEGATE_SIM_SEEDS").unwrap_or(seeds[full]);
    let from: u64 = number("TIDEGATE_SIM_FROM").unwrap_or(0);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let met = Mutex::new(BTreeMap::<String, u64>::new());
    let progress = Progress::new(seeds);
    thread::scope(|scope| {
        for core in 0..cores {
            let (met, progress) = (&met, &progress);
            scope.spawn(move || {
                for seed in (from..from + seeds).skip(core).step_by(cores) {
                    for (what, times) in check(kind, seed) {
                        *met.lock().expect("no panic").entry(what).or_default() += times;
                    }
                    progress.count();
                }
            });
        }
    });
    let met = met.into_inner().expect("no panic");
    let missing: Vec<_> = kind.meets().iter().filter(|what| !met.contains_key(**what)).collect();
    assert!(
        seeds < MORE_SEEDS[0] || missing.is_empty(),
        "{missing:?} never happened in any simulation, only {met:?}"
    );
}

/// Runs a seed. If an invariant is violated, prints it, the end of the trace, and how to repeat it.
/// Returns how often each of the expected things happened.
fn check(kind: Kind, seed: u64) -> BTreeMap<String, u64> {
    let played = panic::catch_unwind(|| play(kind, seed, false));
    let broken = match played.map(|played| (played.violation, played.met)) {
        Ok((None, met)) => return met,
        Ok((Some(Violation { number, text }), _)) => format!("{number} does not hold: {text}"),
        Err(_) => "something panicked".to_owned(),
    };
    let again = panic::catch_unwind(|| play(kind, seed, true));
    let trace = again.map_or(Vec::new(), |it: Played| it.trace);
    let world = KINDS.iter().find(|(_, one)| *one == kind).map_or("", |(name, _)| name);
    panic!(
        "{broken}\n{}\nTIDEGATE_SIM_WORLD={world} TIDEGATE_SIM_SEED={seed} \
         cargo test -p tidegate --test simulated one_seed",
        trace[trace.len().saturating_sub(80)..].join("\n"),
    );
}
