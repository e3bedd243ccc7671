//! The store's clock steps back: engines detect it, and no work is delayed by the size of the step.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate::{
    Batch, Ctx, Debounce, Policy, Rate, Reaction, ReactionCtx, Schedule, StepError, StreamEvent,
    Workflow,
    testing::{TestHarness, VirtualClock},
};
use tidegate_core::reaction::{Backoff, BackoffKind};
use tidegate_store::Store;

use crate::{
    mixed_leases::Settable,
    reactions::{append, looking, noting, numbered},
    stores,
    words::{Journal, Marks, burst, ms, secs, start, states, work},
};

/// spec I14: when the clock steps back, by forty seconds or by an hour, waiting work of every kind
/// continues after its own period, also if no engine was running at the step.
async fn nothing_stands_still(
    store: Arc<dyn Store>,
    clock: Arc<VirtualClock>,
    settable: &Settable,
) {
    let harness = TestHarness::on(store, clock);
    let journal = Journal::new(&harness);
    let call = || work(&journal, "call", ms(0)).throttle(Rate::of(1, secs(10)));
    let save = || work(&journal, "save", ms(0)).debounce(Debounce::quiet(secs(10)));
    let index = || {
        let index = Workflow::new("index", |_: Ctx, _: Vec<Value>| async { Ok(()) });
        index.batch(Batch::of(100).within(secs(10)))
    };
    let nap = || {
        Workflow::new("nap", |ctx: Ctx, _: Value| async move { ctx.sleep("nap", secs(10)).await })
    };
    let begin = async || {
        let builder = harness.engine().workflow(call()).workflow(save());
        builder.workflow(index()).workflow(nap()).start().await.unwrap()
    };
    let mut engine = begin().await;
    let mut behind = 0;
    for (round, step) in [40, 3600, 40].into_iter().enumerate() {
        // The first run starts at once; each later one waits for the throttle.
        burst(&engine, "call", if round == 0 { 2 } else { 1 }).await;
        for name in ["save", "index", "nap"] {
            start(&engine, name, json!({ "n": 0 })).await;
        }
        harness.settle().await;
        if round == 2 {
            // No engine runs when the clock steps back.
            engine.shutdown().await;
        }
        behind += step;
        settable.set(-behind * 1_000_000);
        if round == 2 {
            engine = begin().await;
        }
        // Ten seconds for the period of each workflow, and two to detect the step.
        for _ in 0..12 {
            harness.advance(secs(1)).await;
        }
        for (name, more) in [("call", 1), ("save", 0), ("index", 0), ("nap", 0)] {
            let all = vec!["completed"; round + 1 + more];
            assert_eq!(
                states(&harness, name).await,
                all,
                "runs of `{name}` have not all completed after a step back by {step} s"
            );
        }
    }
}

/// spec I14: a reaction's lease was held by an engine that died before the clock stepped back. The
/// stream is taken over when the lease has expired.
async fn a_lease_of_a_reaction_ends(
    store: Arc<dyn Store>,
    clock: Arc<VirtualClock>,
    settable: &Settable,
) {
    let harness = TestHarness::on(store, clock);
    let journal = Journal::new(&harness);
    let reaction = || noting(&journal, "mail", secs(600)).lease_time(secs(10));
    let first = looking(&harness).reaction(reaction()).start().await.unwrap();
    harness.settle().await;
    append(&harness, "a", &numbered(1)).await;
    assert_eq!(journal.take(), ["a 0"]);
    harness.crash(&first).await;
    settable.set(-3_600_000_000);
    let _second = looking(&harness).reaction(reaction()).start().await.unwrap();
    seconds(&harness, 13).await;
    assert_eq!(journal.take(), ["a 0"], "the event must be handled again after the lease expired");
}

/// spec I14: an event that failed before the clock stepped back is retried after its backoff. A
/// time that a handler set with `defer` is not changed.
async fn a_backoff_of_a_reaction_ends(
    store: Arc<dyn Store>,
    clock: Arc<VirtualClock>,
    settable: &Settable,
) {
    let harness = TestHarness::on(store, clock);
    let (journal, marks) = (Journal::new(&harness), Marks::default());
    let backoff = Backoff { kind: BackoffKind::Linear, ms: 10_000, max_ms: 60_000, jitter: false };
    let noted = journal.clone();
    let reaction =
        Reaction::new("mail").backoff(&backoff).on_any(move |ctx: ReactionCtx, _: StreamEvent| {
            noted.note(ctx.stream());
            let times = marks.mark(ctx.stream().to_owned());
            async move {
                match (ctx.stream(), times) {
                    ("retried", 1) => Err(StepError::new("busy")),
                    ("deferred", 1) => {
                        ctx.defer_for(secs(10));
                        Ok(())
                    }
                    _ => Ok(()),
                }
            }
        });
    let _engine = looking(&harness).reaction(reaction).start().await.unwrap();
    harness.settle().await;
    append(&harness, "retried", &numbered(1)).await;
    append(&harness, "deferred", &numbered(1)).await;
    assert_eq!(journal.take(), ["retried", "deferred"]);
    settable.set(-3_600_000_000);
    seconds(&harness, 13).await;
    assert_eq!(journal.take(), ["retried"], "after its backoff");
    harness.advance(secs(3600)).await;
    assert_eq!(
        journal.take(),
        ["deferred"],
        "the event must be handled at the time that it was deferred to"
    );
}

/// spec I14: a queued occurrence of a schedule times out after its own maximum wait.
async fn an_occurrence_in_a_queue_gives_up(
    store: Arc<dyn Store>,
    clock: Arc<VirtualClock>,
    settable: &Settable,
) {
    let harness = TestHarness::on(store, clock);
    let journal = Journal::new(&harness);
    let queue = Policy::queue().at_most(secs(30));
    let schedule = Schedule::cron("* * * * *").on_overlap(queue);
    let tick = work(&journal, "tick", secs(600)).schedule(schedule);
    let _engine = harness.engine().workflow(tick).start().await.unwrap();
    // The first occurrence is running, and the second is queued behind it.
    harness.advance(secs(60)).await;
    while states(&harness, "tick").await.len() < 2 {
        harness.advance(secs(1)).await;
    }
    settable.set(-3_600_000_000);
    seconds(&harness, 32).await;
    let states = states(&harness, "tick").await;
    let cancelled = states.iter().filter(|state| **state == "cancelled").count();
    assert_eq!((states.len(), cancelled), (2, 1), "{states:?}");
}

/// spec I14: the due times of all rows are capped, also if there is more than one page of them.
async fn more_rows_than_a_page_go_on(
    store: Arc<dyn Store>,
    clock: Arc<VirtualClock>,
    settable: &Settable,
) {
    const NAPS: usize = 1_100;
    let harness = TestHarness::on(store, clock);
    let nap =
        Workflow::new("nap", |ctx: Ctx, _: Value| async move { ctx.sleep("nap", secs(10)).await });
    let engine = harness.engine().workflow(nap).start().await.unwrap();
    burst(&engine, "nap", NAPS / 2).await;
    harness.advance(secs(1)).await;
    burst(&engine, "nap", NAPS / 2).await;
    harness.advance(secs(1)).await;
    settable.set(-3_600_000_000);
    seconds(&harness, 12).await;
    assert_eq!(states(&harness, "nap").await, vec!["completed"; NAPS]);
}

/// Advances the clock by `count` seconds, one at a time.
async fn seconds(harness: &TestHarness, count: u32) {
    for _ in 0..count {
        harness.advance(secs(1)).await;
    }
}

macro_rules! on_each_store {
    ($($story:ident: $memory:ident, $sqlite:ident, $postgres:ident,)*) => {
        $(on_each_store! { @one $story, $memory, open_memory }
        on_each_store! { @one $story, $sqlite, open_sqlite }
        on_each_store! { @one $story, $postgres, open_postgres })*
    };
    (@one $story:ident, $test:ident, $open:ident) => {
        #[tokio::test]
        async fn $test() {
            let clock = Arc::new(VirtualClock::default());
            let settable = Arc::new(Settable::new(clock.clone()));
            let Some(store) = stores::$open(settable.clone()).await else { return };
            $story(store, clock, &settable).await;
        }
    };
}

on_each_store! {
    nothing_stands_still:
        nothing_stands_still_when_the_clock_steps_back_on_memory,
        nothing_stands_still_when_the_clock_steps_back_on_sqlite,
        nothing_stands_still_when_the_clock_steps_back_on_postgres,
    a_lease_of_a_reaction_ends:
        a_lease_of_a_reaction_ends_on_memory,
        a_lease_of_a_reaction_ends_on_sqlite,
        a_lease_of_a_reaction_ends_on_postgres,
    a_backoff_of_a_reaction_ends:
        a_backoff_of_a_reaction_ends_on_memory,
        a_backoff_of_a_reaction_ends_on_sqlite,
        a_backoff_of_a_reaction_ends_on_postgres,
    an_occurrence_in_a_queue_gives_up:
        an_occurrence_in_a_queue_gives_up_on_memory,
        an_occurrence_in_a_queue_gives_up_on_sqlite,
        an_occurrence_in_a_queue_gives_up_on_postgres,
    more_rows_than_a_page_go_on:
        more_rows_than_a_page_go_on_on_memory,
        more_rows_than_a_page_go_on_on_sqlite,
        more_rows_than_a_page_go_on_on_postgres,
}
