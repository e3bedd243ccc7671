//! Tests that kill a process at every point of a transactional step.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
};

use serde_json::json;
use tidegate_core::row::Run;
use tidegate_store::{PostgresOptions, TransactionError};
use tidegate_testkit::postgres::url;

use crate::ground::{End, Folder, Ground, HALTED, Names, Part, halt};

/// The point at which a process is killed.
#[derive(Clone, Copy, Debug)]
enum Point {
    BeforeEffect,
    AfterEffect,
    BeforeRecord,
    AfterCommit,
}

impl Point {
    const ALL: [Self; 4] =
        [Self::BeforeEffect, Self::AfterEffect, Self::BeforeRecord, Self::AfterCommit];
}

/// Number of payments that a process makes if it is not killed before.
const RUNS: usize = 40;

/// Numbers of acknowledged payments after which the process is killed.
const KILLS: [usize; 3] = [1, 9, 22];

const FILE: &str = "TIDEGATE_TEST_STEP_FILE";
const OURS: &str = "TIDEGATE_TEST_STEP_OURS";
const THEIRS: &str = "TIDEGATE_TEST_STEP_THEIRS";
const POINT: &str = "TIDEGATE_TEST_STEP_POINT";

/// The database that the killed process and its successor use.
enum Place {
    File(Folder),
    Schemas(Names),
}

impl Place {
    async fn ground(&self) -> Ground {
        match self {
            Self::File(folder) => Ground::on_file(&folder.file()).await,
            Self::Schemas(names) => {
                Ground::in_schemas(url().unwrap(), names.clone(), PostgresOptions::default()).await
            }
        }
    }

    fn process(&self, point: &str) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["killed::the_process_that_is_killed", "--exact", "--ignored", "--nocapture"]);
        match self {
            Self::File(folder) => command.env(FILE, folder.file()),
            Self::Schemas(names) => command
                .env("TIDEGATE_TEST_POSTGRES", url().unwrap())
                .env(OURS, &names.ours)
                .env(THEIRS, &names.theirs),
        };
        let mut child = command.env(POINT, point).stdout(Stdio::piped()).spawn().unwrap();
        let says = BufReader::new(child.stdout.take().unwrap());
        Process { child, says }
    }

    /// Kills the process, and opens the store after the server has ended its transactions.
    async fn after(&self, mut process: Process) -> Ground {
        process.child.kill().unwrap();
        process.child.wait().unwrap();
        let ground = self.ground().await;
        // The server may still execute a COMMIT that the process has sent.
        ground.until("xact_start is not null", false).await;
        ground
    }
}

struct Process {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Process {
    /// Reads until the process has printed this line `times` times.
    fn until(&mut self, said: &str, times: usize) {
        let mut count = 0;
        while count < times {
            let mut line = String::new();
            let read = self.says.read_line(&mut line).unwrap();
            assert!(read > 0, "the process ended before it printed `{said}` {times} times");
            count += usize::from(line.contains(said));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Another engine takes over all runs and executes their steps. A step that is already recorded
/// must not pay again.
async fn take_over(ground: Ground) -> Ground {
    ground.world.lose(ground.world.engine).await;
    let ground = ground.successor();
    for run in ground.world.lease_all().await {
        let known = ground.world.steps(run.id).await.len();
        match ground.act(&run, "pay", Part::new(&[&pay(&run)])).await {
            Ok(_) => assert_eq!(known, 0, "{} paid again, although it was recorded", run.id),
            Err(TransactionError::Recorded) => assert_eq!(known, 1, "{} has no record", run.id),
            Err(error) => panic!("{error}"),
        }
        ground.world.complete(&run).await;
    }
    ground
}

fn pay(run: &Run) -> String {
    format!("insert into payment (run) values ('{}')", run.id.seq.0)
}

async fn killed_at_every_point(open: impl Fn() -> Place) {
    for point in Point::ALL {
        let place = open();
        let mut process = place.process(&format!("{point:?}"));
        process.until(HALTED, 1);
        let ground = place.after(process).await;
        let (effects, steps) = (ground.payments().await.len(), ground.recorded().await);
        let kept = usize::from(matches!(point, Point::AfterCommit));
        let found = (effects, steps.len());
        assert_eq!(found, (kept, kept), "killed at {point:?}: wrong number of payments or records");
        let ground = take_over(ground).await;
        assert_eq!(ground.payments().await.len(), 1, "killed at {point:?}: not paid exactly once");
    }
}

async fn killed_at_any_moment(open: impl Fn() -> Place) {
    for kill in KILLS {
        let place = open();
        let mut process = place.process("");
        process.until("paid ", kill);
        let ground = place.after(process).await;
        let (paid, recorded) = (ground.payments().await, ground.recorded().await);
        let effects: BTreeSet<_> = paid.iter().cloned().collect();
        assert_eq!(effects, recorded, "payments without records, or records without payments");
        assert!(paid.len() >= kill, "{} of {kill} acknowledged payments exist", paid.len());
        let ground = take_over(ground).await;
        let paid = ground.payments().await;
        let effects: BTreeSet<_> = paid.iter().collect();
        assert_eq!((paid.len(), effects.len()), (RUNS, RUNS), "a run did not pay exactly once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_keeps_both_or_neither_at_every_point() {
    killed_at_every_point(|| Place::File(Folder::new())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_keeps_both_or_neither_at_any_moment() {
    killed_at_any_moment(|| Place::File(Folder::new())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_keeps_both_or_neither_at_every_point() {
    if url().is_some() {
        killed_at_every_point(|| Place::Schemas(Names::fresh())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_keeps_both_or_neither_at_any_moment() {
    if url().is_some() {
        killed_at_any_moment(|| Place::Schemas(Names::fresh())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the tests above, in a process of its own"]
async fn the_process_that_is_killed() {
    let place = match (std::env::var(OURS), std::env::var(THEIRS)) {
        (Ok(ours), Ok(theirs)) => Place::Schemas(Names { ours, theirs }),
        _ => Place::File(Folder::of(std::env::var(FILE).unwrap())),
    };
    let ground = place.ground().await;
    let point = std::env::var(POINT).unwrap();
    if point.is_empty() {
        return pay_for_many(&ground).await;
    }
    let run = ground.driven().await;
    let pays = Part::new(&[&pay(&run)]);
    let part = match point.as_str() {
        "BeforeEffect" => Part::new(&[]).end(End::Halt),
        "AfterEffect" => pays.end(End::Halt),
        "BeforeRecord" => pays.end(End::HaltInRecord),
        _ => pays,
    };
    ground.act(&run, "pay", part).await.unwrap();
    halt();
}

async fn pay_for_many(ground: &Ground) {
    ground.world.define(json!({ "name": "order" })).await;
    for _ in 0..RUNS {
        ground.world.send("order", json!({})).await;
    }
    for run in ground.world.lease_all().await {
        ground.act(&run, "pay", Part::new(&[&pay(&run)])).await.unwrap();
        println!("paid {}", run.id);
    }
    halt();
}
