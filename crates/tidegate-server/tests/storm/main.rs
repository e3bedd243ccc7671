//! Storm test: the real binary under load with all controls, while faults are injected. An external
//! judge checks the results.
//!
//! `scripts/storm` runs it. A round starts servers on a new store ([`fleet`]), sends them load
//! ([`load`]) and injects faults ([`round`]). The workflows call a recording service ([`service`]),
//! which no fault affects. Then the load ends, the test reads the API ([`look`]), and the [`judge`]
//! checks the [`journal`] alone. [`planted`] tests the judge.

#![allow(clippy::unwrap_used, reason = "a rig that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "processes run in real time")]
#![expect(clippy::print_stdout, reason = "the person who runs a storm reads its output")]

mod cluster;
mod fleet;
mod journal;
mod judge;
mod lanes;
mod load;
mod look;
mod planted;
mod proxy;
mod results;
mod round;
mod service;

use std::{
    env,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{
    cluster::Cluster,
    journal::{Journal, now},
    judge::{Violation, judge},
    results::Results,
    round::{Setup, Store},
};

/// Number of faults per round.
const ROUND: usize = 10;

/// Maximum number of violations printed per round.
const SHOWN: usize = 12;

fn setting(name: &str) -> Option<String> {
    env::var(format!("TIDEGATE_STORM_{name}")).ok().filter(|value| !value.is_empty())
}

fn number(name: &str) -> Option<u64> {
    setting(name).map(|text| text.parse().unwrap_or_else(|_| panic!("{name}: a number")))
}

/// Settings of a storm, from the environment variables that `scripts/storm` sets.
struct Plan {
    stores: Vec<Store>,
    faults: usize,
    /// Leases of the servers, if they differ from the defaults for the store.
    leases: Option<Vec<u64>>,
    seed: u64,
    until: Option<Instant>,
    keep: bool,
    folder: PathBuf,
    results: PathBuf,
}

impl Plan {
    fn read() -> Self {
        let stores = match setting("STORE").as_deref() {
            Some("sqlite") => vec![Store::Sqlite],
            Some("postgres") => vec![Store::Postgres],
            _ => vec![Store::Sqlite, Store::Postgres],
        };
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
        let target = root.join("target/storm");
        let results = setting("RESULTS").map_or_else(|| target.join("results.json"), Into::into);
        Self {
            stores,
            faults: usize::try_from(number("FAULTS").unwrap_or(20)).unwrap(),
            leases: setting("LEASES").map(|text| {
                text.split(',').map(|ms| ms.parse().expect("LEASES: numbers")).collect()
            }),
            seed: number("SEED").unwrap_or_else(|| now().unsigned_abs()),
            until: number("SECONDS").map(|secs| Instant::now() + Duration::from_secs(secs)),
            keep: setting("KEEP").is_some(),
            folder: target,
            results,
        }
    }
}

/// Runs the storm; without the environment variables of `scripts/storm` it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "long; scripts/storm plays it"]
async fn storm() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    if let Some(path) = setting("JUDGE") {
        let found = judge(&Journal::read(&std::fs::read_to_string(&path).unwrap()));
        show(&found, &format!("journal file: {path}"));
        assert!(found.is_empty(), "{} violations", found.len());
        return;
    }
    let plan = Plan::read();
    let mut results =
        if setting("RESUME").is_some() { Results::read(&plan.results) } else { Results::default() };
    let mut violations = 0;
    for (at, store) in plan.stores.iter().enumerate() {
        let share = plan.faults / plan.stores.len();
        let share = share + usize::from(at < plan.faults % plan.stores.len());
        violations += play(&plan, *store, share, &mut results).await;
    }
    println!("\n{}results are in {}", results.table(), plan.results.display());
    assert_eq!(violations, 0, "violations");
}

/// Plays rounds on one store. Returns the number of violations.
async fn play(plan: &Plan, store: Store, faults: usize, results: &mut Results) -> usize {
    let mut cluster = match store {
        Store::Sqlite => None,
        Store::Postgres => match Cluster::start().await {
            Some(cluster) => Some(cluster),
            None => {
                assert!(
                    env::var_os("CI").is_none(),
                    "there is no PostgreSQL, and in CI the test must not be skipped"
                );
                println!("!!! NO POSTGRESQL: the storm on it is skipped");
                return 0;
            }
        },
    };
    let (mut left, mut violations, mut seed) = (faults, 0, plan.seed);
    while left > 0 && plan.until.is_none_or(|until| Instant::now() < until) {
        let (count, began) = (left.min(ROUND), Instant::now());
        let folder = round::folder(&plan.folder, store, seed);
        let leases = plan.leases.as_deref().unwrap_or(store.leases());
        let setup = Setup { store, leases, seed, faults: count };
        let journal = round::play(setup, cluster.as_mut(), &folder).await;
        let found = judge(&journal);
        let secs = began.elapsed().as_secs();
        results.add(store.name(), &journal, &found, secs);
        results.write(&plan.results);
        println!(
            "{} seed {seed}: {count} faults in {secs} s, {} requests, {} runs, {} calls: {}",
            store.name(),
            journal.requests.len(),
            journal.world.runs.len(),
            journal.calls.len(),
            if found.is_empty() { "clean".to_owned() } else { format!("{} WRONG", found.len()) }
        );
        if found.is_empty() && !plan.keep {
            std::fs::remove_dir_all(&folder).unwrap();
        } else {
            std::fs::write(folder.join("journal.jsonl"), journal.lines()).unwrap();
            let name = store.name();
            let again = format!(
                "journal and logs are in {}\nto repeat: scripts/storm --store {name} --seed \
                 {seed} --faults {count}\nto judge again: scripts/storm --judge {}",
                folder.display(),
                folder.join("journal.jsonl").display()
            );
            show(&found, &again);
        }
        violations += found.len();
        left -= count;
        seed = seed.wrapping_add(1);
    }
    violations
}

fn show(found: &[Violation], again: &str) {
    for violation in found.iter().take(SHOWN) {
        println!("  {violation}");
    }
    if found.len() > SHOWN {
        println!("  and {} more", found.len() - SHOWN);
    }
    println!("{again}");
}
