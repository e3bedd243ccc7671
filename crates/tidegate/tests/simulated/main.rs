//! The real engine under the simulator: several engines in one thread, on one store in memory and
//! on virtual time, while commits fail, answers get lost, leases cannot be renewed, processes die
//! and start again, and people meddle. The simulator's judge of `tidegate-testkit` sees every
//! commit and every closure of a step; at the end the faults stop and everything must finish.
//!
//! A seed decides everything, and gives the same trace every time. The command-level simulator
//! plays many more seeds; what only this one can find is wrong in the engine itself.

#![allow(clippy::wildcard_enum_match_arm, reason = "the player looks at the rows it is about")]

mod door;
mod handlers;
mod people;
mod play;
mod sessions;
mod world;

use std::{env, panic, thread};

use self::play::{Played, play};

/// How many seeds are played, and how many in a full run.
const SEEDS: [u64; 2] = [200, 10_000];

/// Every seed that ever failed.
const FAILED: &[u64] = &[];

/// The seed that `TIDEGATE_SIM_SEED` names, with the end of its trace if it fails.
#[test]
fn one_seed() {
    check(env::var("TIDEGATE_SIM_SEED").map_or(1, |seed| seed.parse().expect("a number")));
}

#[test]
fn nothing_is_broken_by_real_engines() {
    let number = |name| env::var(name).ok().map(|text| text.parse().expect("a number"));
    let full = usize::from(env::var("TIDEGATE_TEST_FULL").is_ok());
    let seeds: u64 = number("TIDEGATE_SIM_SEEDS").unwrap_or(SEEDS[full]);
    let from: u64 = number("TIDEGATE_SIM_FROM").unwrap_or(0);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for core in 0..cores {
            scope.spawn(move || (from..from + seeds).skip(core).step_by(cores).for_each(check));
        }
    });
}

#[test]
fn seeds_that_failed_before_pass() {
    FAILED.iter().copied().for_each(check);
}

#[test]
fn a_seed_gives_the_same_trace_every_time() {
    for seed in 0..20 {
        let [first, second] = [play(seed, true), play(seed, true)];
        let differs = first.trace.iter().zip(&second.trace).find(|(first, second)| first != second);
        assert_eq!(first.hash, second.hash, "seed {seed} twice: {differs:?}");
    }
}

/// Plays a seed; if something does not hold, shows what, the end of the trace, and how to see it
/// again.
fn check(seed: u64) {
    let played = panic::catch_unwind(|| play(seed, false).violation);
    let broken = match played {
        Ok(None) => return,
        Ok(Some(violation)) => format!("{} does not hold: {}", violation.number, violation.text),
        Err(_) => "something panicked".to_owned(),
    };
    let trace = panic::catch_unwind(|| play(seed, true)).map_or(Vec::new(), |it: Played| it.trace);
    panic!(
        "{broken}\n{}\nTIDEGATE_SIM_SEED={seed} cargo test -p tidegate --test simulated one_seed",
        trace[trace.len().saturating_sub(80)..].join("\n"),
    );
}
