//! The simulator on many seeds: nothing that must always hold is ever broken, and everything
//! finishes once the faults stop.

use tidegate_testkit::sim::{Backend, simulate};

/// One seed, with its trace: `TIDEGATE_SIM_SEED` names it.
#[test]
fn one_seed() {
    let seed = std::env::var("TIDEGATE_SIM_SEED").ok().and_then(|seed| seed.parse().ok());
    check(seed.unwrap_or(1), Backend::Memory);
}

#[test]
fn many_seeds_on_memory() {
    let n: u64 = std::env::var("N").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    let from: u64 = std::env::var("FROM").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    for seed in from..from + n {
        check(seed, Backend::Memory);
    }
}

fn check(seed: u64, backend: Backend) {
    let outcome = simulate(seed, backend, false);
    if let Some(violation) = outcome.violation {
        let trace = simulate(seed, backend, true).trace;
        let shown = trace.len().saturating_sub(60);
        panic!(
            "{} does not hold: {}\n{}\nTIDEGATE_SIM_SEED={seed} cargo test -p tidegate-testkit --test sim one_seed",
            violation.number,
            violation.text,
            trace[shown..].join("\n"),
        );
    }
}

#[test]
#[ignore = "lists"]
fn survey() {
    let n: u64 = std::env::var("N").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    let from: u64 = std::env::var("FROM").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let (mut commits, mut turns) = (0, 0);
    for seed in from..from + n {
        let outcome = std::panic::catch_unwind(|| simulate(seed, Backend::Memory, false));
        match outcome {
            Ok(outcome) => {
                commits += outcome.commits;
                turns += outcome.turns;
                if let Some(violation) = outcome.violation {
                    let text: String = violation.text.chars().take(400).collect();
                    println!("SEED {seed} {} {text}", violation.number);
                }
            }
            Err(_) => println!("SEED {seed} PANIC"),
        }
    }
    println!("{n} seeds {commits} commits {turns} turns");
}
