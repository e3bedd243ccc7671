//! Exactness over processes: limits hold while engines on one PostgreSQL are killed at random.
//!
//! `TIDEGATE_TEST_SEED` repeats the choices of a run; the timing of the machine differs.

use std::{
    env,
    hash::{BuildHasher, RandomState},
    time::{Duration, Instant},
};

use tidegate_testkit::{
    postgres::{fresh_schema, url},
    torture::{
        Dice, LIMIT, Orders, TTL,
        drives::{crowd, drives, fences},
        rig::{Rig, returns},
        rows::{self, Left},
        worker,
    },
};

/// Number of claimed runs before the faults stop.
const CLAIMS: usize = 20_000;

/// The same with `TIDEGATE_TEST_FULL`.
const FULL_CLAIMS: usize = 100_000;

/// spec I2, I4, I5, I7, I11: never more than the limit, every slot is freed, no run is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_holds_over_processes_that_are_killed() {
    let Some(url) = url() else { return };
    let seed = env::var("TIDEGATE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("TIDEGATE_TEST_SEED={seed}");
    let schema = fresh_schema("torture");
    let outside = rows::connect(url).await;
    let deadlocks = rows::deadlocks(&outside).await;
    let begun = Instant::now();
    let mut rig = Rig::start(url, &schema, "worker_that_is_killed", Dice::new(seed));
    println!("journals: {}", rig.directory());
    let full = env::var_os("TIDEGATE_TEST_FULL").is_some();
    let load = rig.kill_until(if full { FULL_CLAIMS } else { CLAIMS }).await;
    let loaded = begun.elapsed();
    // A stuck test is checked like any other: the checks explain more than the timeout.
    let quiet = rig.drain().await;
    let samples = rig.samples();

    let drives = drives(&rig.stories);
    let crowd = crowd(&drives);
    let left = Left::read(&outside, &schema).await.unwrap();
    let returns = returns(&rig.stories, &samples);
    let kills = rig.stories.iter().filter(|story| story.killed.is_some()).count();
    println!(
        "{} claims, {kills} kills, {} halts and {} falls in {loaded:.1?}, quiet after {:.1?}; ended {:?}; {} samples; \
         at most {} driven and {} held at once; {} drives outlasted their lease; \
         slots of killed processes back after at most {:.2?}; {} stopped by themselves",
        drives.len(),
        rig.halts,
        rig.falls,
        begun.elapsed(),
        left.states(),
        samples.count,
        crowd.most,
        samples.most,
        drives.iter().filter(|drive| drive.late).count(),
        returns.iter().max().copied().unwrap_or_default(),
        rows::stops(&rig.stories).len(),
    );

    // A busy machine may cost a process its lease or its connection, and nothing else.
    let faults: Vec<_> = rows::stops(&rig.stories)
        .into_iter()
        .filter(|it| !["lease", "busy", "unavailable"].iter().any(|word| it.contains(word)))
        .collect();
    let wrong = [
        told("driven beside too many others", &crowd.too_many),
        told("driven twice at once", &crowd.twice),
        told("fences that do not grow", &fences(&drives)),
        told("seen in the tables on the way", &samples.wrong),
        told("left in the tables in the end", &left.judge(&rig.stories, &drives)),
        told("gave up for a reason that time does not heal", &faults),
        told("stuck", &[load, quiet].into_iter().filter_map(Result::err).collect::<Vec<_>>()),
    ];
    assert!(wrong.iter().all(String::is_empty), "{}", wrong.concat());
    assert_eq!(rows::deadlocks(&outside).await, deadlocks, "deadlocks");
    assert_eq!(crowd.most, LIMIT, "the limit was never reached, so that nothing was tried");
    assert_eq!(samples.most, LIMIT, "the limit was never reached, so that nothing was tried");
    assert!(kills >= 10 && !returns.is_empty(), "{kills} kills");
    // The holds have been freed, or the runs would not have ended. The time depends on the machine,
    // but never takes minutes.
    assert!(returns.iter().all(|time| *time < TTL * 10 + Duration::from_secs(20)), "{returns:?}");
    rig.clear();
}

/// Formats the findings of a check, with the first few cases.
fn told(what: &str, wrong: &[String]) -> String {
    if wrong.is_empty() {
        return String::new();
    }
    let first = wrong.iter().take(5).cloned().collect::<Vec<_>>().join("\n  ");
    format!("\n{what}: {}\n  {first}", wrong.len())
}

/// Not a test: the process that the test above starts and kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs as a child of the test above"]
async fn worker_that_is_killed() {
    let Some(orders) = Orders::of_this_process() else { return };
    worker::work(orders).await;
}
