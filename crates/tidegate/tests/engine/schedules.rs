//! Schedules: workflows that are started by the clock.

use serde_json::{Value, json};
use tidegate::{
    Action, Ctx, Error, Flow, Policy, Schedule, ScheduleId, Workflow,
    core::{command::Refusal, observe::schedules::Which, row::Row, time::Timestamp},
    testing::Lab,
};

use crate::words::{Journal, ms, secs, states};

/// The moment that an occurrence was planned for, as its run reads it.
fn planned_at(input: &Value) -> Timestamp {
    let planned_at = input["plannedAt"].as_str().and_then(Timestamp::parse_rfc3339);
    planned_at.unwrap_or_else(|| panic!("`plannedAt` is RFC 3339: {input}"))
}

/// A workflow that notes which minute it was planned for, and works for a time.
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

/// Moves the clock to the beginning of an hour, and says which minute that is.
async fn on_the_hour(lab: &Lab) -> i64 {
    let hour = 3_600_000_000;
    let rest = hour - lab.now().micros() % hour;
    lab.advance(std::time::Duration::from_micros(rest.unsigned_abs())).await;
    lab.now().micros() / 60_000_000
}

/// spec N6, N41, schedules: each occurrence makes one run over all engines, at its moment, and
/// nobody else hears of it.
pub(crate) async fn an_occurrence_runs_once_over_all_engines(lab: &Lab) {
    let hour = on_the_hour(lab).await;
    let journal = Journal::new(lab);
    let every = |minutes: &str| tick(&journal, 0).cron(minutes, "UTC");
    let listener = Workflow::new("listener", |_: Ctx, _: Value| async { Ok(()) }).on_event("*");
    let one = lab.engine().workflow(every("*/2 * * * *")).workflow(listener).start().await.unwrap();
    let two = lab.engine().workflow(every("*/2 * * * *")).start().await.unwrap();
    lab.advance(ms(119_999)).await;
    assert!(journal.take().is_empty(), "it is not time yet");
    lab.advance(secs(300)).await;
    let line = |minute: i64| format!("\"*/2 * * * *\" {}", hour + minute);
    assert_eq!(journal.take(), [line(2), line(4), line(6)]);
    assert_eq!(states(lab, "tick").await, ["completed"; 3]);
    assert!(states(lab, "listener").await.is_empty());
    one.shut_down().await;
    lab.advance(secs(120)).await;
    assert_eq!(journal.take(), [line(8)], "the other one goes on");
    two.shut_down().await;
}

/// spec B45: an occurrence is skipped while the last one runs, and recorded.
pub(crate) async fn an_occurrence_is_skipped_while_the_last_one_runs(lab: &Lab) {
    let hour = on_the_hour(lab).await;
    let journal = Journal::new(lab);
    let tick = tick(&journal, 90).cron("* * * * *", "UTC");
    let engine = lab.engine().workflow(tick).start().await.unwrap();
    lab.advance(secs(299)).await;
    let line = |minute: i64| format!("\"* * * * *\" {}", hour + minute);
    assert_eq!(journal.take(), [line(1), line(3)]);
    assert_eq!(journal.most("tick"), 1);
    let rows = lab.store().dump().await.unwrap();
    let skipped = rows.iter().filter(|row| matches!(row, Row::Receipt(_))).count();
    assert_eq!(skipped, 2, "minutes 2 and 4");
    engine.shut_down().await;
}

/// spec B46: occurrences that may overlap do.
pub(crate) async fn occurrences_overlap_if_they_may(lab: &Lab) {
    on_the_hour(lab).await;
    let journal = Journal::new(lab);
    let tick = tick(&journal, 90).cron_overlapping("* * * * *", "UTC");
    let _engine = lab.engine().workflow(tick).start().await.unwrap();
    lab.advance(secs(299)).await;
    assert_eq!((journal.take().len(), journal.most("tick")), (4, 2));
}

/// spec N41, schedules: what was planned while nobody was there is caught up with, in order, unless
/// it is more than an hour late.
pub(crate) async fn what_nobody_was_there_for_is_caught_up_with(lab: &Lab) {
    let hour = on_the_hour(lab).await;
    let journal = Journal::new(lab);
    let every = || tick(&journal, 0).cron_overlapping("*/20 * * * *", "UTC");
    let engine = lab.engine().workflow(every()).start().await.unwrap();
    lab.advance(secs(20 * 60)).await;
    engine.shut_down().await;
    lab.advance(secs(100 * 60)).await;
    let _engine = lab.engine().workflow(every()).start().await.unwrap();
    lab.settle().await;
    let line = |minute: i64| format!("\"*/20 * * * *\" {}", hour + minute);
    assert_eq!(journal.take(), [20, 60, 80, 100, 120].map(line), "that of minute 40 is lost");
    lab.advance(secs(20 * 60)).await;
    assert_eq!(journal.take(), [line(140)]);
}

/// spec schedules: occurrences that queue run one after another, and one that restarts takes the
/// place of the last.
pub(crate) async fn occurrences_wait_for_each_other_or_take_over(lab: &Lab) {
    let hour = on_the_hour(lab).await;
    let (queued, newest) = (Journal::new(lab), Journal::new(lab));
    let every_minute = |policy| Schedule::cron("* * * * *").on_overlap(policy);
    let queue = tick(&queued, 90).app("queue").schedule(every_minute(Policy::queue()));
    let restart = tick(&newest, 90).app("restart").schedule(every_minute(Policy::restart()));
    let engine = lab.engine().workflow(queue).workflow(restart).start().await.unwrap();
    lab.advance(secs(60 + 4 * 60 + 59)).await;
    let lines = |minutes: &[i64]| -> Vec<_> {
        minutes.iter().map(|minute| format!("\"* * * * *\" {}", hour + minute)).collect()
    };
    assert_eq!(queued.take(), lines(&[1, 2, 3, 4]), "each, a minute and a half after the last");
    assert_eq!(queued.most("tick"), 1);
    assert_eq!(newest.take(), lines(&[1, 2, 3, 4, 5]), "each begins, and only the last goes on");
    engine.shut_down().await;
}

/// spec N41: with a window of its own, a schedule catches up as far as that; how many are older is
/// kept.
pub(crate) async fn an_outage_longer_than_the_window_is_told_once(lab: &Lab) {
    let hour = on_the_hour(lab).await;
    let journal = Journal::new(lab);
    let every = || {
        let schedule = Schedule::cron("*/10 * * * *").catch_up(secs(25 * 60));
        tick(&journal, 0).schedule(schedule.on_overlap(Policy::allow()))
    };
    let engine = lab.engine().workflow(every()).start().await.unwrap();
    lab.advance(secs(10 * 60)).await;
    engine.shut_down().await;
    lab.advance(secs(110 * 60)).await;
    let engine = lab.engine().workflow(every()).start().await.unwrap();
    lab.settle().await;
    let line = |minute: i64| format!("\"*/10 * * * *\" {}", hour + minute);
    assert_eq!(journal.take(), [10, 100, 110, 120].map(line));
    let rows = lab.store().dump().await.unwrap();
    let told: Vec<_> = rows
        .iter()
        .filter_map(|row| if let Row::Receipt(it) = row { Some(&it.verdict) } else { None })
        .collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((&told[0]["control"], &told[0]["missed"]), (&json!("catchUp"), &json!(8)));
    engine.shut_down().await;
}

/// A schedule that is paused on one engine stands still on all, and goes on with the next
/// occurrence when it is resumed on another.
pub(crate) async fn a_paused_schedule_stands_still_everywhere(lab: &Lab) {
    let hour = on_the_hour(lab).await;
    let journal = Journal::new(lab);
    let every = || tick(&journal, 0).schedule(Schedule::cron("*/10 * * * *").named("often"));
    let one = lab.engine().poll_interval(secs(60)).workflow(every()).start().await.unwrap();
    let two = lab.engine().poll_interval(secs(60)).workflow(every()).start().await.unwrap();
    lab.advance(secs(10 * 60)).await;
    let page = one.schedules(&Which::default(), None, 9).await.unwrap();
    let [shown] = &page.schedules[..] else { panic!("one schedule: {page:?}") };
    let minutes = |shown: &tidegate::core::observe::schedules::Shown| -> Vec<i64> {
        shown.next.iter().map(|at| at.micros() / 60_000_000 - hour).collect()
    };
    assert_eq!(minutes(shown), [20, 30, 40, 50, 60]);
    assert_eq!(shown.name.as_deref(), Some("often"));
    assert!(shown.last.as_ref().is_some_and(|last| last.told.is_some()));
    let paused = one.pause_schedule(shown.id).await.unwrap();
    assert!(paused.paused && paused.next.is_empty());
    lab.advance(secs(35 * 60)).await;
    let line = |minute: i64| format!("\"*/10 * * * *\" {}", hour + minute);
    assert_eq!(journal.take(), [line(10)]);
    one.shut_down().await;
    let three = lab.engine().poll_interval(secs(60)).workflow(every()).start().await.unwrap();
    let resumed = two.resume_schedule(shown.id).await.unwrap();
    assert_eq!((resumed.paused, minutes(&resumed)), (false, vec![50, 60, 70, 80, 90]));
    lab.advance(secs(15 * 60)).await;
    assert_eq!(journal.take(), [50, 60].map(line), "nothing of what lies between");
    let nobody = ScheduleId::new("default", "tick", "@daily");
    let refused = three.pause_schedule(nobody).await;
    let Err(Error::Refused(Refusal::NoSchedule(id))) = refused else { panic!("{refused:?}") };
    assert_eq!(id, nobody.to_string());
    two.shut_down().await;
    three.shut_down().await;
}

/// spec versions, schedules: a release that has no schedule ends it, one that has another begins
/// that.
pub(crate) async fn a_release_changes_the_schedule(lab: &Lab) {
    let hour = on_the_hour(lab).await;
    let journal = Journal::new(lab);
    let one = || tick(&journal, 0).version(1).cron("*/20 * * * *", "UTC");
    let two = || tick(&journal, 0).version(2).cron("*/30 * * * *", "UTC");
    let old = lab.engine().workflow(one()).start().await.unwrap();
    lab.advance(secs(20 * 60)).await;
    old.shut_down().await;
    let new =
        lab.engine().poll_interval(secs(60)).workflow(one()).workflow(two()).start().await.unwrap();
    lab.advance(secs(40 * 60)).await;
    let line = |every: u32, minute: i64| format!("\"*/{every} * * * *\" {}", hour + minute);
    assert_eq!(journal.take(), [line(20, 20), line(30, 30), line(30, 60)]);
    new.release("default", "tick", 1).await.unwrap();
    lab.advance(secs(40 * 60)).await;
    assert_eq!(journal.take(), [line(20, 80), line(20, 100)], "a rollback is a release");
}

/// spec schedules: a run of a schedule is told which, and for when it was planned, in the
/// schedule's zone.
pub(crate) async fn a_schedule_says_what_it_is(lab: &Lab) {
    on_the_hour(lab).await;
    let tick = Workflow::new("tick", |_: Ctx, input: Value| async { Ok(input) });
    let tick = tick.cron("0 9 * * *", "Europe/Paris");
    let engine = lab.engine().workflow(tick).start().await.unwrap();
    lab.advance(secs(24 * 60 * 60)).await;
    let run = lab.runs("tick").await.pop().expect("it ran within a day").id;
    let input = lab.completed(&engine, run).await;
    assert_eq!(input["schedule"], json!("0 9 * * * Europe/Paris"));
    let planned = planned_at(&input).micros() / 60_000_000 % (24 * 60);
    assert!([7 * 60, 8 * 60].contains(&planned), "nine in Paris: {planned}");
}

/// spec schedules: an action is called by its schedule with the occurrence as its input.
pub(crate) async fn a_schedule_calls_an_action(lab: &Lab) {
    on_the_hour(lab).await;
    let tick = json!({ "triggers": [{ "cron": "* * * * *" }] });
    let flow = Flow::from_definition(json!({ "name": "clock", "actions": { "tick": tick } }));
    let flow = flow.action(Action::new("tick", async |_: Ctx, input: Value| Ok(input)));
    let engine = lab.engine().flow(flow).start().await.unwrap();
    lab.advance(secs(60)).await;
    let run = lab.runs("clock/tick").await.pop().expect("it ran within a minute").id;
    assert_eq!(lab.completed(&engine, run).await["schedule"], json!("* * * * *"));
}
