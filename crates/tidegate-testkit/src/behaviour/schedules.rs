//! Schedules: each planned occurrence starts one run over all engines, or is recorded as missed.

use serde_json::json;
use tidegate_core::{
    command::{Answer, Command},
    flow::Verdict,
    id::RunId,
    reads::{ReadSet, Scan},
    row::{Kind, Row, RowKey},
    schedule::{Missed, Occurrence},
    time::Timestamp,
};

use crate::world::World;

const DAILY: &str = "@daily";
const DAY_MS: u64 = 86_400_000;

/// Defines a workflow with the schedule `DAILY` and plans its first occurrence for now; returns
/// that time.
async fn planned_now(world: &World) -> Timestamp {
    let cron = json!({ "cron": DAILY, "onOverlap": "allow" });
    world.define(json!({ "name": "report", "triggers": [cron] })).await;
    let now = world.now();
    assert!(world.plan("report", DAILY, now).await);
    now
}

/// Starts an occurrence; returns `None` if another engine has started it.
async fn occur(world: &World, occurrence: &Occurrence) -> Option<Verdict> {
    let occurrence = occurrence.clone();
    match world.run(Command::Occur { occurrence }).await {
        Ok(Answer::Admitted(outcome)) => Some(outcome.verdict),
        Ok(Answer::Changed(false)) => None,
        other => panic!("unexpected answer to an occurrence: {other:?}"),
    }
}

async fn runs(world: &World) -> Vec<RunId> {
    let rows = world.dump().await.into_iter();
    rows.filter_map(|row| row.as_run().map(|run| run.id)).collect()
}

/// spec I34, N41: if many engines start the same occurrence, one run is made, and the next
/// occurrence is planned in the same transaction.
pub async fn an_occurrence_gives_one_run_over_all_engines(world: &World) {
    let at = planned_now(world).await;
    let tomorrow = at.plus_ms(DAY_MS);
    let today = world.occurrence("report", DAILY, at, Some(tomorrow));
    let engines = [world.engine(2), world.engine(3), world.engine(4)];
    let [a, b, c] = &engines;
    let (first, second, third) = tokio::join!(occur(a, &today), occur(b, &today), occur(c, &today));
    let started = [first, second, third].into_iter().flatten().count();
    assert_eq!((started, runs(world).await.len()), (1, 1));
    assert_eq!(occur(world, &today).await, None, "nor later");
    assert_eq!(world.planned("report", DAILY).await, Some(Some(tomorrow)));
    let next = world.occurrence("report", DAILY, tomorrow, Some(tomorrow.plus_ms(DAY_MS)));
    assert_eq!(occur(world, &next).await, None, "it is not due");
    world.pass(DAY_MS);
    assert!(occur(world, &next).await.is_some());
    assert_eq!(runs(world).await.len(), 2);
    // The same occurrence twice in one transaction.
    world.pass(DAY_MS);
    let at = world.now();
    let occurrence = world.occurrence("report", DAILY, at, Some(at.plus_ms(DAY_MS)));
    let twice = Command::Occur { occurrence };
    let answers = world.batch(vec![twice.clone(), twice]).await;
    assert!(matches!(answers[0], Ok(Answer::Admitted(_))), "{answers:?}");
    assert_eq!(answers[1], Ok(Answer::Changed(false)));
}

/// spec N6, A5: the input of an occurrence belongs to its run; it is no event that triggers or
/// wakes other runs.
pub async fn an_occurrence_is_no_event(world: &World) {
    let at = planned_now(world).await;
    world.define(json!({ "name": "all", "triggers": ["*"] })).await;
    let occurrence = world.occurrence("report", DAILY, at, None);
    let verdict = occur(world, &occurrence).await.expect("it is due");
    let run = world.lease_one().await;
    assert_eq!(verdict, Verdict::Started { run: run.id });
    let source = world.row(RowKey::Event(run.source.first().seq)).await;
    let Some(Row::Event(input)) = source else {
        panic!("the input of the occurrence is not stored: {source:?}")
    };
    let data = json!({ "schedule": DAILY, "plannedAt": at.rfc3339() });
    assert_eq!((input.kind, input.data.as_str()), (Kind::Cron, &*data.to_string()));
    assert_eq!(
        world.planned("report", DAILY).await,
        Some(None),
        "the last occurrence must leave nothing planned"
    );
    assert!(
        world.schedules().await.is_empty(),
        "a schedule without further occurrences was listed for planning"
    );
}

/// The schedules of definitions are rows: the first engine plans the next occurrence, and the plan
/// survives restarts.
pub async fn a_schedule_is_planned_once(world: &World) {
    let at = planned_now(world).await;
    let later = at.plus_ms(5);
    assert!(
        !world.engine(2).plan("report", DAILY, later).await,
        "a second engine changed the planned time"
    );
    assert_eq!(world.planned("report", DAILY).await, Some(Some(at)));
    assert!(
        !world.plan("report", "@hourly", later).await,
        "a schedule that is not in the release was planned"
    );
    assert!(!world.plan("nobody", DAILY, later).await);
    let engines = [world.engine(2), world.engine(3)];
    let cron = json!({ "cron": "0 3 * * *", "timeZone": "Europe/Berlin" });
    world.define(json!({ "name": "clean", "triggers": [cron] })).await;
    let id = "0 3 * * * Europe/Berlin";
    let (first, second) =
        tokio::join!(engines[0].plan("clean", id, later), engines[1].plan("clean", id, later));
    assert!(first != second, "exactly one engine must plan the schedule: {first} {second}");
    let planned: Vec<_> = world.schedules().await.into_iter().map(|it| it.workflow).collect();
    assert_eq!(
        planned,
        ["report", "clean"],
        "schedules must be listed by their next time, due or not"
    );
}

/// spec versions: a release deletes the schedules that it no longer has, and keeps the planned
/// times of the others.
pub async fn a_release_ends_the_schedules_that_it_lacks(world: &World) {
    let defined = |version: u32, crons: &[&str]| {
        let triggers: Vec<_> = crons.iter().map(|cron| json!({ "cron": cron })).collect();
        json!({ "name": "report", "version": version, "triggers": triggers })
    };
    world.define(defined(1, &["@daily", "@hourly"])).await;
    let at = world.now();
    assert!(world.plan("report", "@daily", at).await);
    assert!(world.plan("report", "@hourly", at).await);
    let other = world.in_workspace("b");
    other.define(defined(1, &["@daily"])).await;
    assert!(other.plan("report", "@daily", at).await);
    world.define(defined(2, &["@hourly", "@weekly"])).await;
    assert_eq!(world.planned("report", "@daily").await, None);
    assert_eq!(
        world.planned("report", "@hourly").await,
        Some(Some(at)),
        "the release changed the plan of a schedule that it has"
    );
    assert_eq!(
        other.planned("report", "@daily").await,
        Some(Some(at)),
        "the release changed a schedule of another tenant"
    );
    let gone = world.occurrence("report", "@daily", at, Some(at.plus_ms(DAY_MS)));
    assert_eq!(occur(world, &gone).await, None);
    assert!(runs(world).await.is_empty());
    // An engine of the old version tries to plan a schedule that is not in the current release.
    assert!(!world.plan("report", "@daily", at).await);
    world.release("report", 1).await;
    assert!(world.plan("report", "@daily", at).await, "rolled back");
    world.define(json!({ "name": "report", "version": 3 })).await;
    let left: Vec<_> = world.schedules().await.into_iter().map(|row| row.ws).collect();
    assert!(left == std::slice::from_ref(&other.ws), "{left:?}");
}

/// spec N41: occurrences that are too late are skipped once, and a receipt names them.
pub async fn a_missed_occurrence_is_recorded(world: &World) {
    let at = planned_now(world).await;
    world.pass(3 * DAY_MS);
    let next = world.now().plus_ms(1);
    let occurrence = world.occurrence("report", DAILY, at, Some(next));
    let missed = Missed { count: 3, at_least: false };
    let miss = || world.run(Command::Miss { occurrence: occurrence.clone(), missed });
    assert_eq!(miss().await, Ok(Answer::Changed(true)));
    assert_eq!(miss().await, Ok(Answer::Changed(false)), "once");
    assert_eq!(occur(world, &occurrence).await, None);
    assert!(runs(world).await.is_empty());
    assert_eq!(world.planned("report", DAILY).await, Some(Some(next)));
    let rows = world.dump().await;
    let inputs: Vec<_> = rows.iter().filter(|row| matches!(row, Row::Event(_))).collect();
    let [Row::Event(input)] = inputs[..] else { panic!("expected one input: {inputs:?}") };
    assert_eq!(input.kind, Kind::Cron);
    let scan = Scan::Receipts(input.id.seq);
    let snapshot = world.read(ReadSet::default().scan(scan.clone(), 9)).await;
    let found = snapshot.found(&scan);
    let [Row::Receipt(receipt)] = found[..] else { panic!("expected one receipt: {found:?}") };
    assert_eq!((&*receipt.workflow, &*receipt.key), ("report", DAILY));
    assert_eq!(receipt.verdict["outcome"], "skipped");
    assert_eq!(receipt.verdict["control"], "catchUp");
    assert_eq!(receipt.verdict["missed"], 3);
    assert_eq!(receipt.verdict["plannedAt"], at.rfc3339());
    assert_eq!(receipt.verdict["next"], next.rfc3339());
}
