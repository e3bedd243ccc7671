//! Overlap: occurrences of a schedule while its last run has not ended.

use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Command, Refusal},
    flow::Verdict,
    id::RunId,
    observe::schedules::{self, ScheduleView},
    row::{Ending, Row, Run},
    run::record::Then,
    schedule::Hold,
};
use tidegate_store::{look, why};

use crate::world::{World, increment, replaced, skipped, step};

const DAILY: &str = "@daily";

/// Defines a workflow with a schedule with this `onOverlap`, and a limit of two driven runs.
async fn scheduled(world: &World, name: &str, overlap: Value) {
    let triggers = json!([name, { "cron": DAILY, "onOverlap": overlap }]);
    let limit = json!({ "limit": 1 });
    world.define(json!({ "name": name, "triggers": triggers, "concurrency": limit })).await;
}

/// All states of a run that has not ended.
const STATES: [&str; 7] =
    ["behind a gate", "ready", "driven", "sleeping", "waiting", "backing off", "paused"];

/// Brings the run of an occurrence into a state. Returns its id, and the leased run if it is
/// driven.
async fn occurring(world: &World, name: &str, state: &str) -> (RunId, Option<Run>) {
    if state == "behind a gate" {
        let before = world.send_for_run(name, json!({})).await;
        let run = world.occur(name, DAILY).await.run().expect("it is admitted");
        assert_eq!(world.state(run).await, "queued");
        let other = world.lease_one().await;
        assert_eq!(other.id, before, "the slot must be held by the run of an event");
        return (run, Some(other));
    }
    let run = world.occur(name, DAILY).await.run().expect("it is admitted");
    if state == "ready" {
        return (run, None);
    }
    let leased = world.lease_one().await;
    assert_eq!(leased.id, run);
    match state {
        "sleeping" => world.sleep(&leased, "nap", 60_000).await,
        "waiting" => world.wait_for_signal(&leased, "go", "go").await,
        "backing off" => world.back_off(&leased, "try", 60_000).await,
        "paused" => {
            world.pause(run).await.unwrap();
            let report = world.report(&leased, vec![step("a", &json!(1))], Then::Continue).await;
            assert!(report.is_ok());
        }
        _ => return (run, Some(leased)),
    }
    (run, None)
}

/// spec B45, schedules: an occurrence is skipped until the last run has ended, in any state of that
/// run.
pub async fn an_occurrence_is_skipped_in_every_state_of_the_last(world: &World) {
    for state in STATES {
        scheduled(world, state, json!("skip")).await;
        let (holder, _) = occurring(world, state, state).await;
        for _ in 0..2 {
            let verdict = world.occur(state, DAILY).await;
            assert_eq!(skipped(&verdict), (holder, "onOverlap"), "{state}");
            assert_eq!(
                verdict.to_value()["key"],
                DAILY,
                "the key of the verdict must be the schedule"
            );
        }
        world.cancel(holder).await.unwrap();
        world.drain().await;
    }
}

/// spec schedules: queued occurrences run one after another in their order, in any state of the
/// last run and however it ends.
pub async fn occurrences_that_queue_run_in_order(world: &World) {
    for state in STATES {
        scheduled(world, state, json!("queue")).await;
        let (holder, worker) = occurring(world, state, state).await;
        let mut line = Vec::new();
        for place in 1..=3 {
            let verdict = world.occur(state, DAILY).await;
            let Verdict::Queued { run, by, .. } = &verdict else { panic!("{state}: {verdict:?}") };
            assert_eq!((by.control, &*by.key), ("onOverlap", DAILY), "{state}");
            let why = why(&*world.store, &world.ws, *run).await.unwrap().unwrap();
            let said = format!("it waits for onOverlap of {DAILY} (1 at once), position {place}");
            assert!(why.sentence.starts_with(&said), "{}", why.sentence);
            assert_eq!(why.gates[0].holders, [holder]);
            line.push(*run);
        }
        world.cancel(holder).await.unwrap();
        if let Some(worker) = worker {
            if worker.id == holder {
                assert!(
                    world.lease_all().await.is_empty(),
                    "the next occurrence started before the worker stopped"
                );
                world.stopped(&worker).await;
            } else {
                world.complete(&worker).await;
            }
        }
        assert_eq!(world.drain().await, line, "{state}");
        world.check_holds().await;
    }
}

/// spec G4: a queue of occurrences is ordered by arrival, even if a later release has a higher
/// priority.
pub async fn occurrences_queue_by_arrival_whatever_the_priority(world: &World) {
    let define = |version: u32, shift_ms: u64| {
        let triggers = json!([{ "cron": DAILY, "onOverlap": { "policy": "queue" } }]);
        let priority = json!({ "shiftMs": shift_ms });
        json!({ "name": "w", "version": version, "triggers": triggers, "priority": priority })
    };
    world.define(define(1, 1)).await;
    let first = world.occur("w", DAILY).await.run().unwrap();
    world.pass(5);
    let second = world.occur("w", DAILY).await.run().unwrap();
    world.define(define(2, 60_000)).await;
    let third = world.occur("w", DAILY).await.run().unwrap();
    assert_eq!(world.drain().await, [first, second, third]);
}

/// spec schedules: an occurrence leaves the queue after `maxWaitMs`, but not if it holds the
/// schedule.
pub async fn an_occurrence_that_waited_too_long_gives_up(world: &World) {
    scheduled(world, "w", json!({ "policy": "queue", "maxWaitMs": 300 })).await;
    let holder = world.occur("w", DAILY).await.run().unwrap();
    let run = world.lease_one().await;
    assert_eq!(run.id, holder);
    let waiter = world.occur("w", DAILY).await.run().unwrap();
    world.tick(299).await;
    assert_eq!(world.state(waiter).await, "queued");
    world.tick(1).await;
    let Ending::Cancelled { reason, by: None } = world.ended(waiter).await.unwrap().ending else {
        panic!("it gave up");
    };
    assert_eq!(reason, "it waited longer than maxWaitMs");
    assert_eq!(world.state(holder).await, "running");
    world.complete(&run).await;
    // This occurrence holds the schedule and is queued for a slot: `maxWaitMs` does not apply.
    world.send_for_run("w", json!({})).await;
    let other = world.lease_one().await;
    let holder = world.occur("w", DAILY).await.run().unwrap();
    world.tick(1000).await;
    assert_eq!(world.state(holder).await, "queued");
    world.complete(&other).await;
    assert_eq!(world.drain().await, [holder]);
}

/// spec replace, B44: an occurrence replaces the last run in one transaction, in any state of it;
/// staged session operations of the replaced run are dropped.
pub async fn an_occurrence_takes_the_place_of_the_last(world: &World) {
    for state in STATES {
        scheduled(world, state, json!("restart")).await;
        let (holder, worker) = occurring(world, state, state).await;
        if let Some(run) = worker.as_ref().filter(|run| run.id == holder) {
            assert_eq!(world.told(run, "count", "s", increment("n", 1)).await, json!(1));
        }
        let verdict = world.occur(state, DAILY).await;
        let (run, gone) = replaced(&verdict);
        assert_eq!((gone, verdict.to_value()["control"].as_str()), (holder, Some("onOverlap")));
        let ending = world.ended(holder).await.unwrap().ending;
        let by = Ending::Cancelled { reason: "replaced".into(), by: Some(run) };
        assert_eq!(ending, by, "{state}");
        if let Some(worker) = worker {
            if worker.id == holder {
                assert!(
                    world.lease_all().await.is_empty(),
                    "the new run started before the worker of the old one stopped"
                );
                let late = world.report(&worker, Vec::new(), Then::Continue).await;
                assert!(matches!(late, Err(Refusal::Fenced { .. })), "{late:?}");
                world.stopped(&worker).await;
            } else {
                world.complete(&worker).await;
            }
        }
        assert_eq!(world.drain().await, [run], "{state}");
        assert_eq!((world.document("s").await, world.staged().await), (Value::Null, 0));
        world.check_holds().await;
    }
}

/// spec R18: the policy of the current release applies; runs that were queued under another policy
/// keep their positions.
pub async fn the_current_release_says_what_overlaps(world: &World) {
    let define = |version: u32, word: &str| {
        let triggers = json!([{ "cron": DAILY, "onOverlap": word }]);
        json!({ "name": "w", "version": version, "triggers": triggers })
    };
    world.define(define(1, "queue")).await;
    let first = world.occur("w", DAILY).await.run().unwrap();
    let second = world.occur("w", DAILY).await.run().unwrap();
    world.define(define(2, "restart")).await;
    let (third, gone) = replaced(&world.occur("w", DAILY).await);
    assert_eq!(gone, first);
    world.define(define(3, "allow")).await;
    let fourth = world.occur("w", DAILY).await;
    assert_eq!(fourth.outcome(), "started");
    world.define(define(4, "reject")).await;
    assert_eq!(skipped(&world.occur("w", DAILY).await), (third, "onOverlap"));
    let mut done = world.drain().await;
    assert_eq!(done.pop(), Some(second), "after the third");
    done.sort();
    assert_eq!(done, [third, fourth.run().unwrap()]);
    // While the holder is being stopped, `restart` does not replace a run that is only queued.
    world.define(define(5, "queue")).await;
    let stopping = world.occur("w", DAILY).await.run().unwrap();
    let worker = world.lease_one().await;
    let queued = world.occur("w", DAILY).await.run().unwrap();
    world.cancel(stopping).await.unwrap();
    world.define(define(6, "restart")).await;
    let newest = world.occur("w", DAILY).await;
    assert_eq!(newest.outcome(), "queued", "{newest:?}");
    world.stopped(&worker).await;
    assert_eq!(world.drain().await, [newest.run().unwrap(), queued]);
}

/// spec versions: the name of a schedule does not affect runs, so a changed name makes no new
/// version.
pub async fn another_name_of_a_schedule_is_no_new_version(world: &World) {
    let named = |name: Option<&str>| {
        let mut trigger = json!({ "cron": DAILY });
        if let Some(name) = name {
            trigger["name"] = name.into();
        }
        json!({ "name": "w", "triggers": [trigger] })
    };
    let first = world.define(named(None)).await;
    for name in ["nightly", "daily"] {
        let again = world.define(named(Some(name))).await;
        assert_eq!((again.version, again.unchanged), (first.version, true), "{name}");
        assert_eq!(shown(world, DAILY).await.name.as_deref(), Some(name));
    }
}

/// spec replace, steps: the staged operations of a failed occurrence under `restart` were dropped,
/// so that its retry executes them again. Operations that the retry has applied are not executed by
/// a second retry.
pub async fn a_retry_of_an_occurrence_does_what_was_staged_once(world: &World) {
    let triggers = json!([{ "cron": DAILY, "onOverlap": "restart" }]);
    world.define(json!({ "name": "w", "triggers": triggers })).await;
    let actions = json!([{ "name": "a", "triggers": triggers }]);
    world.define_flow(json!({ "name": "f", "actions": actions })).await;
    for name in ["w", "f/a"] {
        let session = name.replace('/', "-");
        let count = async |run: &Run| {
            world.told(run, "count", &session, increment("n", 1)).await;
            world.report(run, vec![step("last", &json!(1))], Then::Continue).await.unwrap();
            world.fail(run).await;
        };
        world.occur(name, DAILY).await;
        let run = world.lease_one().await;
        count(&run).await;
        assert_eq!(world.document(&session).await, Value::Null, "{name}");
        let first = world.retry(run.id, "last").await;
        assert!(
            world.steps_in_order(first).await.is_empty(),
            "{name}: the dropped step must be executed again"
        );
        count(&world.lease_one().await).await;
        assert_eq!(world.document(&session).await, json!({ "n": 1 }), "{name}");
        let second = world.retry(first, "last").await;
        assert_eq!(
            world.steps_in_order(second).await,
            ["count"],
            "{name}: the applied step must not be executed again"
        );
        world.cancel(second).await.unwrap();
    }
}

async fn shown(world: &World, id: &str) -> ScheduleView {
    let view = |draft: &_| {
        schedules::list(draft, &world.ws, &schedules::ScheduleFilter::default(), None, 9)
    };
    let all = look(&*world.store, &world.ws, view).await.unwrap().schedules;
    all.into_iter().find(|it| it.schedule == id).expect("it is listed")
}

/// While a schedule is paused, no occurrence is planned, started or caught up, on any engine, after
/// restarts, and after releases that still have the schedule.
pub async fn a_paused_schedule_plans_nothing(world: &World) {
    let define = |version: u32, cron: &str| {
        let triggers = json!([{ "cron": cron, "onOverlap": "queue" }, { "cron": "@hourly" }]);
        json!({ "name": "w", "version": version, "triggers": triggers })
    };
    world.define(define(1, DAILY)).await;
    let due = world.occurrence("w", DAILY, world.now(), Some(world.now().plus_ms(10)));
    assert!(
        world.plan("w", DAILY, due.planned_at).await
            && world.plan("w", "@hourly", world.now()).await
    );
    let began = world.occur("w", DAILY).await.run().unwrap();
    let waits = world.occur("w", DAILY).await.run().unwrap();
    let next = world.planned("w", DAILY).await.unwrap();
    assert!(world.engine(2).hold("w", DAILY, Hold::Pause).await);
    let since = world.now();
    world.pass(50);
    assert!(!world.hold("w", DAILY, Hold::Pause).await, "a second pause must have no effect");
    let late = world.occurrence("w", DAILY, next.unwrap(), Some(world.now()));
    let occur = Command::Occur { occurrence: late };
    assert_eq!(world.run(occur).await, Ok(Answer::Changed(false)));
    assert!(!world.plan("w", DAILY, world.now()).await, "a paused schedule was planned");
    world.define(define(2, DAILY)).await;
    let seen = shown(world, DAILY).await;
    assert_eq!((seen.paused, seen.paused_at, seen.next), (true, Some(since), vec![]));
    assert!(!shown(world, "@hourly").await.paused, "only that one");
    let listed: Vec<_> = world.schedules().await.into_iter().map(|row| row.id).collect();
    assert_eq!(listed, ["@hourly"], "a paused schedule was listed for planning");
    assert_eq!(
        world.drain().await,
        [began, waits],
        "runs that had started before the pause must continue"
    );
    let then = world.now().plus_ms(7);
    assert!(world.hold("w", DAILY, Hold::Resume(Some(then))).await);
    assert!(
        !world.hold("w", DAILY, Hold::Resume(Some(world.now()))).await,
        "a second resume must have no effect"
    );
    assert_eq!(
        world.planned("w", DAILY).await,
        Some(Some(then)),
        "the first resume must plan the next occurrence"
    );
    assert!(!shown(world, DAILY).await.paused);
    // A pause ends when a release removes the schedule.
    assert!(world.hold("w", DAILY, Hold::Pause).await);
    world.define(define(3, "@weekly")).await;
    let gone = Command::HoldSchedule {
        ws: world.ws.clone(),
        app: "default".to_owned(),
        workflow: "w".to_owned(),
        schedule: DAILY.to_owned(),
        hold: Hold::Resume(None),
    };
    assert_eq!(world.run(gone).await, Err(Refusal::NoSchedule(DAILY.to_owned())));
    assert!(
        world.hold("w", "@weekly", Hold::Pause).await,
        "a schedule must be pausable before it was planned"
    );
    assert!(!world.plan("w", "@weekly", world.now()).await);
}

/// The list shows all schedules, page by page, with the outcome of the last occurrence.
pub async fn schedules_are_listed_with_their_last_occurrence(world: &World) {
    let other = world.in_workspace("b");
    other.define(json!({ "name": "w0", "triggers": [{ "cron": DAILY }] })).await;
    let named = json!({ "cron": "0 3 * * *", "timeZone": "Europe/Berlin", "name": "nightly" });
    for n in 0..3 {
        let triggers = json!([{ "cron": DAILY, "catchUpMs": 60_000 }, named]);
        world.define(json!({ "name": format!("w{n}"), "triggers": triggers })).await;
    }
    let actions = json!({ "sync": { "triggers": [{ "cron": "@hourly" }] } });
    world.define_flow(json!({ "name": "f", "actions": actions })).await;
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let which = schedules::ScheduleFilter::default();
        let view = |draft: &_| schedules::list(draft, &world.ws, &which, after.as_ref(), 2);
        let page = look(&*world.store, &world.ws, view).await.unwrap();
        all.extend(page.schedules);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let places: Vec<_> = all.iter().map(|it| (&*it.workflow, &*it.schedule)).collect();
    let berlin = "0 3 * * * Europe/Berlin";
    assert_eq!(places[..3], [("f/sync", "@hourly"), ("w0", berlin), ("w0", DAILY)]);
    assert_eq!(places.len(), 7);
    let hourly = serde_json::to_value(&all[0]).unwrap();
    assert_eq!((&hourly["flow"], &hourly["action"]), (&json!("f"), &json!("sync")));
    assert_eq!((&hourly["catchUpMs"], &hourly["onOverlap"]), (&json!(3_600_000), &json!("skip")));
    assert_eq!((all[1].name.as_deref(), all[2].catch_up_ms), (Some("nightly"), 60_000));
    let at = world.now();
    let run = world.occur("w0", DAILY).await.run().unwrap();
    let which = schedules::ScheduleFilter { id: Some(all[2].id), ..Default::default() };
    let view = |draft: &_| schedules::list(draft, &world.ws, &which, None, 9);
    let last = || async {
        let page = look(&*world.store, &world.ws, view).await.unwrap();
        serde_json::to_value(&page.schedules[0].last).unwrap()
    };
    let answer = json!({ "plannedAt": at.rfc3339(), "outcome": "started", "runId": run });
    assert_eq!(last().await, answer);
    world.occur("w0", DAILY).await;
    assert_eq!(last().await["outcome"], "skipped");
    let rows = world.dump().await;
    let receipts = rows.iter().filter(|row| matches!(row, Row::Receipt(_))).count();
    assert_eq!(receipts, 1);
}
