//! Tests that limits hold over several processes on one PostgreSQL, which are killed at random.
//!
//! `TIDEGATE_TEST_SEED` repeats the random choices of a test; the timing differs each time.

use std::{
    env,
    hash::{BuildHasher, RandomState},
    time::{Duration, Instant},
};

use tidegate_testkit::{
    postgres::{fresh_schema, url},
    torture::{
        Contest, Dice, Orders, TTL,
        drives::{crowd, drives, fences},
        rig::{Rig, returns},
        rows::{self, Left},
        worker,
    },
};

/// Number of runs that are claimed before the kills stop.
const CLAIMS: usize = 20_000;

/// Number of runs that are claimed before the kills stop, with `TIDEGATE_TEST_FULL`.
const FULL_CLAIMS: usize = 100_000;

/// As [`CLAIMS`], for the pool: a run holds several units, so that fewer runs are driven at once.
const POOL_CLAIMS: usize = 8000;

/// spec I2, I4, I5, I7, I11: never more than the limit, every slot is freed, no run is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_holds_over_processes_that_are_killed() {
    hold(Contest::Keys, if is_full() { FULL_CLAIMS } else { CLAIMS }).await;
}

/// spec L4, L7, L8, L24, I2: two workflows and the steps of a third one that share a pool, with costs
/// of 1 to 5 and a limit of 7, which an override changes every second: units never enter above the
/// limit in force, every unit is freed, no run is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_holds_over_processes_that_are_killed() {
    hold(Contest::Pool, if is_full() { FULL_CLAIMS / 4 } else { POOL_CLAIMS }).await;
}

fn is_full() -> bool {
    env::var_os("TIDEGATE_TEST_FULL").is_some()
}

/// Returns the seed to repeat, or a new one, which is printed.
#[expect(clippy::print_stdout, reason = "a failure is repeated with it")]
fn seed() -> u64 {
    let seed = env::var("TIDEGATE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("TIDEGATE_TEST_SEED={seed}");
    seed
}

#[expect(clippy::print_stdout, clippy::unwrap_used, reason = "the body of two tests")]
async fn hold(contest: Contest, claims: usize) {
    let Some(url) = url() else { return };
    let seed = seed();
    let schema = fresh_schema(if contest == Contest::Pool { "torture_pool" } else { "torture" });
    let outside = rows::connect(url).await;
    let deadlocks = rows::deadlocks(&outside).await;
    let begun = Instant::now();
    let mut rig = Rig::start(url, &schema, contest, "worker_that_is_killed", Dice::new(seed));
    println!("journals: {}", rig.directory());
    let load = rig.kill_until(claims).await;
    let loaded = begun.elapsed();
    // If the runs do not end in time, the other checks still run, because they say more about the
    // cause than the timeout.
    let quiet = rig.drain().await;
    let samples = rig.samples();

    let drives = drives(&rig.stories);
    let crowd = crowd(&drives, contest.most());
    let steps = drives.iter().filter(|drive| drive.run.contains('/')).count();
    let left = Left::read(&outside, &schema, contest).await.unwrap();
    let returns = returns(&rig.stories, &samples);
    let kills = rig.stories.iter().filter(|story| story.killed.is_some()).count();
    println!(
        "{} claims, {kills} kills, {} pauses and {} workers that killed themselves in {loaded:.1?}, \
         no work left after {:.1?}; ended {:?}; {} samples; \
         at most {} driven and {} held at once; {} drives outlasted their lease; \
         slots of killed processes back after at most {:.2?}; {} stopped by themselves; \
         {} changes of the limit, {} of {} entries below that of the definition; \
         {} places of steps",
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
        rig.limits.count(),
        rig.limits.lowered(&samples.entries),
        samples.entries.len(),
        steps,
    );

    // On a busy machine a process may lose its lease or its connection, which is no fault. All
    // other reasons to stop are faults.
    let faults: Vec<_> = rows::stops(&rig.stories)
        .into_iter()
        .filter(|it| !["lease", "busy", "unavailable"].iter().any(|word| it.contains(word)))
        .collect();
    let wrong = [
        told("runs driven while the limit was exceeded", &crowd.too_many),
        told("runs driven twice at the same time", &crowd.twice),
        told("fences that do not grow", &fences(&drives)),
        told("wrong rows during the test", &samples.wrong),
        told("entries above the limit in force", &rig.limits.judge(&samples.entries)),
        told("wrong rows at the end", &left.judge(&rig.stories, &drives)),
        told("processes that stopped because of a fault", &faults),
        told("timeouts", &[load, quiet].into_iter().filter_map(Result::err).collect::<Vec<_>>()),
    ];
    assert!(wrong.iter().all(String::is_empty), "{}", wrong.concat());
    assert_eq!(rows::deadlocks(&outside).await, deadlocks, "the server counted new deadlocks");
    let reached = "the limit was never reached, so the test proves nothing";
    assert_eq!((crowd.most, samples.most), (contest.most(), contest.most()), "{reached}");
    if contest == Contest::Pool {
        let lowered = rig.limits.lowered(&samples.entries);
        assert!(rig.limits.count() >= 5 && lowered > 0, "the limit was hardly changed");
        assert!(steps * 10 > claims, "only {steps} steps have passed the pool");
    }
    assert!(kills >= 10 && !returns.is_empty(), "too few processes were killed: {kills}");
    // The holds of killed processes have been freed, otherwise the runs would not have ended. The
    // time until then depends on the machine, but is never minutes.
    assert!(returns.iter().all(|time| *time < TTL * 10 + Duration::from_secs(20)), "{returns:?}");
    rig.clear();
}

/// Formats the violations that a check has found: their number, and the first five.
fn told(what: &str, wrong: &[String]) -> String {
    if wrong.is_empty() {
        return String::new();
    }
    let first = wrong.iter().take(5).cloned().collect::<Vec<_>>().join("\n  ");
    format!("\n{what}: {}\n  {first}", wrong.len())
}

/// Not a test: the child process that the test above starts and kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs as a child of the test above"]
async fn worker_that_is_killed() {
    let Some(orders) = Orders::of_this_process() else { return };
    worker::work(orders).await;
}
