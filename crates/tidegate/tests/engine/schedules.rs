//! Schedules: workflows that are started at planned times.

use serde_json::{Value, json};
use tidegate::{
    Action, Ctx, Error, Flow, Policy, Schedule, ScheduleId, Workflow, testing::TestHarness,
};
use tidegate_core::{
    command::Refusal, observe::schedules::ScheduleFilter, row::Row, time::Timestamp,
};

use crate::words::{Journal, ms, secs, states};

/// Returns the planned time of an occurrence, read from the input of its run.
fn planned_at(input: &Value) -> Timestamp {
    let planned_at = input["plannedAt"].as_str().and_then(Timestamp::parse_rfc3339);
    planned_at.unwrap_or_else(|| panic!("`plannedAt` is not an RFC 3339 time: {input}"))
}

/// A workflow that records the minute of its planned time, and works for some seconds.
fn tick(journal: &Journal, seconds: u64) -> Workflow<Value, ()> {
    let journal = journal.clone();
    Workflow::new("tick", move |ctx: Ctx, input: Value| {
        let journal = journal.clone();
        async move {
            let minute = planned_at(&input).micros() / 60_000_000;
            let work = ctx.step("work", || async {
                journal
                    .work("tick", format!("{} {minute}", input["schedule"]), secs(seconds))
                    .await;
                Ok(())
            });
            work.await
        }
    })
}

/// Advances the clock to the start of the next hour, and returns that hour as a number of minutes.
async fn on_the_hour(harness: &TestHarness) -> i64 {
    let hour = 3_600_000_000;
    let rest = hour - harness.now().micros() % hour;
    harness.advance(std::time::Duration::from_micros(rest.unsigned_abs())).await;
    harness.now().micros() / 60_000_000
}

/// spec N6, N41, schedules: each occurrence starts one run over all engines, at its time. It
/// triggers no other workflow.
pub(crate) async fn an_occurrence_runs_once_over_all_engines(harness: &TestHarness) {
    let hour = on_the_hour(harness).await;
    let journal = Journal::new(harness);
    let every = |minutes: &str| tick(&journal, 0).cron(minutes, "UTC");
    let listener = Workflow::new("listener", |_: Ctx, _: Value| async { Ok(()) }).on_event("*");
    let one =
        harness.engine().workflow(every("*/2 * * * *")).workflow(listener).start().await.unwrap();
    let two = harness.engine().workflow(every("*/2 * * * *")).start().await.unwrap();
    harness.advance(ms(119_999)).await;
    assert!(journal.take().is_empty(), "no run may start before its planned time");
    harness.advance(secs(300)).await;
    let line = |minute: i64| format!("\"*/2 * * * *\" {}", hour + minute);
    assert_eq!(journal.take(), [line(2), line(4), line(6)]);
    assert_eq!(states(harness, "tick").await, ["completed"; 3]);
    assert!(states(harness, "listener").await.is_empty());
    one.shutdown().await;
    harness.advance(secs(120)).await;
    assert_eq!(journal.take(), [line(8)], "the other engine must continue the schedule");
    two.shutdown().await;
}

/// spec B45: an occurrence is skipped while the run of the previous one has not ended, and the skip
/// is recorded.
pub(crate) async fn an_occurrence_is_skipped_while_the_last_one_runs(harness: &TestHarness) {
    let hour = on_the_hour(harness).await;
    let journal = Journal::new(harness);
    let tick = tick(&journal, 90).cron("* * * * *", "UTC");
    let engine = harness.engine().workflow(tick).start().await.unwrap();
    harness.advance(secs(299)).await;
    let line = |minute: i64| format!("\"* * * * *\" {}", hour + minute);
    assert_eq!(journal.take(), [line(1), line(3)]);
    assert_eq!(journal.most("tick"), 1);
    let rows = harness.store().dump().await.unwrap();
    let skipped = rows.iter().filter(|row| matches!(row, Row::Receipt(_))).count();
    assert_eq!(skipped, 2, "minutes 2 and 4");
    engine.shutdown().await;
}

/// spec B46: runs of a schedule may overlap if its policy allows it.
pub(crate) async fn occurrences_overlap_if_they_may(harness: &TestHarness) {
    on_the_hour(harness).await;
    let journal = Journal::new(harness);
    let tick = tick(&journal, 90).cron_overlapping("* * * * *", "UTC");
    let _engine = harness.engine().workflow(tick).start().await.unwrap();
    harness.advance(secs(299)).await;
    assert_eq!((journal.take().len(), journal.most("tick")), (4, 2));
}

/// spec N41, schedules: occurrences that were missed while no engine was running start later, in
/// order, unless they are more than an hour late.
pub(crate) async fn what_nobody_was_there_for_is_caught_up_with(harness: &TestHarness) {
    let hour = on_the_hour(harness).await;
    let journal = Journal::new(harness);
    let every = || tick(&journal, 0).cron_overlapping("*/20 * * * *", "UTC");
    let engine = harness.engine().workflow(every()).start().await.unwrap();
    harness.advance(secs(20 * 60)).await;
    engine.shutdown().await;
    harness.advance(secs(100 * 60)).await;
    let _engine = harness.engine().workflow(every()).start().await.unwrap();
    harness.settle().await;
    let line = |minute: i64| format!("\"*/20 * * * *\" {}", hour + minute);
    assert_eq!(
        journal.take(),
        [20, 60, 80, 100, 120].map(line),
        "only the occurrence of minute 40 is too late to start"
    );
    harness.advance(secs(20 * 60)).await;
    assert_eq!(journal.take(), [line(140)]);
}

/// spec schedules: with the policy `queue`, occurrences run one after another. With `restart`, an
/// occurrence replaces the previous one.
pub(crate) async fn occurrences_wait_for_each_other_or_take_over(harness: &TestHarness) {
    let hour = on_the_hour(harness).await;
    let (queued, newest) = (Journal::new(harness), Journal::new(harness));
    let every_minute = |policy| Schedule::cron("* * * * *").on_overlap(policy);
    let queue = tick(&queued, 90).app("queue").schedule(every_minute(Policy::queue()));
    let restart = tick(&newest, 90).app("restart").schedule(every_minute(Policy::restart()));
    let engine = harness.engine().workflow(queue).workflow(restart).start().await.unwrap();
    harness.advance(secs(60 + 4 * 60 + 59)).await;
    let lines = |minutes: &[i64]| -> Vec<_> {
        minutes.iter().map(|minute| format!("\"* * * * *\" {}", hour + minute)).collect()
    };
    assert_eq!(
        queued.take(),
        lines(&[1, 2, 3, 4]),
        "each queued occurrence must start when the previous one has ended"
    );
    assert_eq!(queued.most("tick"), 1);
    assert_eq!(
        newest.take(),
        lines(&[1, 2, 3, 4, 5]),
        "each occurrence must start and replace the previous one"
    );
    engine.shutdown().await;
}

/// spec N41: a schedule with a catch-up window of its own starts missed occurrences within that
/// window. The number of older missed occurrences is recorded.
pub(crate) async fn an_outage_longer_than_the_window_is_told_once(harness: &TestHarness) {
    let hour = on_the_hour(harness).await;
    let journal = Journal::new(harness);
    let every = || {
        let schedule = Schedule::cron("*/10 * * * *").catch_up(secs(25 * 60));
        tick(&journal, 0).schedule(schedule.on_overlap(Policy::allow()))
    };
    let engine = harness.engine().workflow(every()).start().await.unwrap();
    harness.advance(secs(10 * 60)).await;
    engine.shutdown().await;
    harness.advance(secs(110 * 60)).await;
    let engine = harness.engine().workflow(every()).start().await.unwrap();
    harness.settle().await;
    let line = |minute: i64| format!("\"*/10 * * * *\" {}", hour + minute);
    assert_eq!(journal.take(), [10, 100, 110, 120].map(line));
    let rows = harness.store().dump().await.unwrap();
    let answer: Vec<_> = rows
        .iter()
        .filter_map(|row| if let Row::Receipt(it) = row { Some(&it.verdict) } else { None })
        .collect();
    assert_eq!(answer.len(), 1, "{answer:?}");
    assert_eq!((&answer[0]["control"], &answer[0]["missed"]), (&json!("catchUp"), &json!(8)));
    engine.shutdown().await;
}

/// A schedule that is paused through one engine stops on all engines. When it is resumed through
/// another engine, it continues with the next occurrence.
pub(crate) async fn a_paused_schedule_stands_still_everywhere(harness: &TestHarness) {
    let hour = on_the_hour(harness).await;
    let journal = Journal::new(harness);
    let every = || tick(&journal, 0).schedule(Schedule::cron("*/10 * * * *").named("often"));
    let one = harness.engine().poll_interval(secs(60)).workflow(every()).start().await.unwrap();
    let two = harness.engine().poll_interval(secs(60)).workflow(every()).start().await.unwrap();
    harness.advance(secs(10 * 60)).await;
    let page = one.schedules(&ScheduleFilter::default(), None, 9).await.unwrap();
    let [shown] = &page.schedules[..] else { panic!("expected one schedule: {page:?}") };
    let minutes = |shown: &tidegate_core::observe::schedules::ScheduleView| -> Vec<i64> {
        shown.next.iter().map(|at| at.micros() / 60_000_000 - hour).collect()
    };
    assert_eq!(minutes(shown), [20, 30, 40, 50, 60]);
    assert_eq!(shown.name.as_deref(), Some("often"));
    assert!(shown.last.as_ref().is_some_and(|last| last.told.is_some()));
    let paused = one.pause_schedule(shown.id).await.unwrap();
    assert!(paused.paused && paused.next.is_empty());
    harness.advance(secs(35 * 60)).await;
    let line = |minute: i64| format!("\"*/10 * * * *\" {}", hour + minute);
    assert_eq!(journal.take(), [line(10)]);
    one.shutdown().await;
    let three = harness.engine().poll_interval(secs(60)).workflow(every()).start().await.unwrap();
    let resumed = two.resume_schedule(shown.id).await.unwrap();
    assert_eq!((resumed.paused, minutes(&resumed)), (false, vec![50, 60, 70, 80, 90]));
    harness.advance(secs(15 * 60)).await;
    assert_eq!(journal.take(), [50, 60].map(line), "no occurrence may start during the pause");
    let nobody = ScheduleId::new("default", "tick", "@daily");
    let refused = three.pause_schedule(nobody).await;
    let Err(Error::Refused(Refusal::NoSchedule(id))) = refused else { panic!("{refused:?}") };
    assert_eq!(id, nobody.to_string());
    two.shutdown().await;
    three.shutdown().await;
}

/// spec versions, schedules: a release without the schedule ends it. A release with another
/// schedule starts that one.
pub(crate) async fn a_release_changes_the_schedule(harness: &TestHarness) {
    let hour = on_the_hour(harness).await;
    let journal = Journal::new(harness);
    let one = || tick(&journal, 0).version(1).cron("*/20 * * * *", "UTC");
    let two = || tick(&journal, 0).version(2).cron("*/30 * * * *", "UTC");
    let old = harness.engine().workflow(one()).start().await.unwrap();
    harness.advance(secs(20 * 60)).await;
    old.shutdown().await;
    let new = harness
        .engine()
        .poll_interval(secs(60))
        .workflow(one())
        .workflow(two())
        .start()
        .await
        .unwrap();
    harness.advance(secs(40 * 60)).await;
    let line = |every: u32, minute: i64| format!("\"*/{every} * * * *\" {}", hour + minute);
    assert_eq!(journal.take(), [line(20, 20), line(30, 30), line(30, 60)]);
    new.release("default", "tick", 1).await.unwrap();
    harness.advance(secs(40 * 60)).await;
    assert_eq!(
        journal.take(),
        [line(20, 80), line(20, 100)],
        "a rollback must bring back the older schedule"
    );
}

/// spec schedules: the input of a scheduled run has the schedule and the planned time, which
/// follows the schedule's time zone.
pub(crate) async fn a_schedule_says_what_it_is(harness: &TestHarness) {
    on_the_hour(harness).await;
    let tick = Workflow::new("tick", |_: Ctx, input: Value| async { Ok(input) });
    let tick = tick.cron("0 9 * * *", "Europe/Paris");
    let engine = harness.engine().workflow(tick).start().await.unwrap();
    harness.advance(secs(24 * 60 * 60)).await;
    let run =
        harness.runs("tick").await.pop().expect("the schedule has an occurrence within a day").id;
    let input = harness.completed(&engine, run).await;
    assert_eq!(input["schedule"], json!("0 9 * * * Europe/Paris"));
    let planned = planned_at(&input).micros() / 60_000_000 % (24 * 60);
    assert!(
        [7 * 60, 8 * 60].contains(&planned),
        "09:00 in Paris is 07:00 or 08:00 UTC, got minute {planned}"
    );
}

/// spec schedules: a schedule calls an action with the occurrence as its input.
pub(crate) async fn a_schedule_calls_an_action(harness: &TestHarness) {
    on_the_hour(harness).await;
    let tick = json!({ "triggers": [{ "cron": "* * * * *" }] });
    let flow = Flow::from_definition(json!({ "name": "clock", "actions": { "tick": tick } }));
    let flow = flow.action(Action::new("tick", async |_: Ctx, input: Value| Ok(input)));
    let engine = harness.engine().flow(flow).start().await.unwrap();
    harness.advance(secs(60)).await;
    let run = harness
        .runs("clock/tick")
        .await
        .pop()
        .expect("the schedule has an occurrence within a minute")
        .id;
    assert_eq!(harness.completed(&engine, run).await["schedule"], json!("* * * * *"));
}
