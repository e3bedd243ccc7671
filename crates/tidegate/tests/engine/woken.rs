//! Wake-ups of reactions, and the isolation of reactions from each other.

use serde_json::json;
use tidegate::{Reaction, ReactionCtx, StreamEvent, events, testing::TestHarness};

use crate::{
    faults::Faults,
    reactions::{append_quietly, looking, numbered, view},
    words::{Door, Marks, secs},
};

/// A reaction to some streams that records the events it handles.
fn marking(marks: &Marks, name: &str, source: &str) -> Reaction {
    let marks = marks.clone();
    Reaction::new(name).source(source).on_any(move |ctx: ReactionCtx, event: StreamEvent| {
        marks.mark(format!("{} {}", ctx.stream(), event.version));
        async { Ok(()) }
    })
}

async fn commit(engine: &tidegate::Engine, stream: &str, count: usize) {
    let events = (0..count).map(|n| events::new("n", json!(n)).unwrap());
    engine.streams().commit(stream, events.collect(), None).await.unwrap();
}

/// spec N78: events that are committed while a reaction is at its limit are handled when it has
/// capacity again, on the same stream and on others, at once and without polling.
pub(crate) async fn what_comes_while_a_reaction_works_is_not_overlooked(harness: &TestHarness) {
    let (door, marks) = (Door::closed(), Marks::default());
    let (inside, noted) = (door.clone(), marks.clone());
    let reaction = Reaction::new("mail").parallel_streams(1).on_any(
        move |ctx: ReactionCtx, event: StreamEvent| {
            let door = inside.clone();
            noted.mark(format!("{} {}", ctx.stream(), event.version));
            async move {
                door.pass().await;
                Ok(())
            }
        },
    );
    let engine = harness.engine().reaction(reaction).start().await.unwrap();
    commit(&engine, "a", 1).await;
    harness.settle().await;
    assert_eq!(marks.all(), ["a 0"]);
    commit(&engine, "a", 1).await;
    commit(&engine, "b", 1).await;
    harness.settle().await;
    assert_eq!(marks.all(), ["a 0"], "one at a time");
    let before = harness.now();
    door.open();
    harness.settle().await;
    let mut all = marks.all();
    all.sort();
    assert_eq!((all, harness.now()), (vec!["a 0".into(), "a 1".into(), "b 0".into()], before));
}

/// spec N80: a handler that panics stops only one stream of its reaction. Other streams, other
/// reactions and writers are not affected.
pub(crate) async fn a_handler_that_panics_harms_no_other(harness: &TestHarness) {
    let (mine, others) = (Marks::default(), Marks::default());
    let noted = mine.clone();
    let panics = Reaction::new("panics").max_retries(0).on_any(
        move |ctx: ReactionCtx, event: StreamEvent| {
            noted.mark(format!("{} {}", ctx.stream(), event.version));
            async move {
                assert!(ctx.stream() != "bad", "the handler falls over");
                Ok(())
            }
        },
    );
    let other = marking(&others, "other", "*");
    let engine = harness.engine().reaction(panics).reaction(other).start().await.unwrap();
    commit(&engine, "bad", 2).await;
    harness.settle().await;
    commit(&engine, "good", 2).await;
    commit(&engine, "bad", 1).await;
    harness.settle().await;
    let answer = view(&engine, "panics", "bad").await.blocked.unwrap();
    assert!(answer.contains("the handler falls over"), "{answer}");
    assert_eq!(mine.all(), ["bad 0", "good 0", "good 1"]);
    let mut all = others.all();
    all.sort();
    assert_eq!(all, ["bad 0", "bad 1", "bad 2", "good 0", "good 1"]);
}

/// spec N76: an engine sends no wake-up for work that it does itself. For work of other engines it
/// sends one wake-up per commit, however many events that has. If a wake-up is lost, the next poll
/// finds the work.
pub(crate) async fn others_are_woken_for_what_is_left_to_them(
    harness: &TestHarness,
    faults: &Faults,
) {
    let (here, there) = (Marks::default(), Marks::default());
    let engine = harness.engine().reaction(marking(&here, "here", "mine-*")).start().await.unwrap();
    let other =
        looking(harness).reaction(marking(&there, "there", "theirs-*")).start().await.unwrap();
    harness.settle().await;
    let before = faults.wakes_given();
    commit(&engine, "mine-1", 2).await;
    harness.settle().await;
    assert_eq!((here.all().len(), faults.wakes_given() - before), (2, 0));
    commit(&engine, "theirs-1", 3).await;
    assert_eq!(faults.wakes_given() - before, 1, "a commit must send one wake-up");
    append_quietly(harness, "theirs-2", &numbered(1)).await;
    assert_eq!(faults.wakes_given() - before, 1, "a commit past the engines must send no wake-up");
    harness.advance(secs(1)).await;
    let mut all = there.all();
    all.sort();
    assert_eq!(all, ["theirs-1 0", "theirs-1 1", "theirs-1 2", "theirs-2 0"]);
    assert_eq!(view(&other, "there", "theirs-1").await.failures, 0);
}

/// spec N77: while the store is unreachable, no event is lost. When the store is back, the work
/// continues without a new commit.
pub(crate) async fn reactions_outlast_an_outage(harness: &TestHarness, faults: &Faults) {
    let marks = Marks::default();
    let reaction = marking(&marks, "mail", "*");
    let engine = looking(harness).lease_ttl(secs(30)).reaction(reaction).start().await.unwrap();
    // Let the first poll finish, because it could find the events that are committed next.
    harness.settle().await;
    append_quietly(harness, "a", &numbered(3)).await;
    faults.set_outage(true);
    harness.advance(secs(10)).await;
    assert_eq!(marks.all(), [""; 0], "no event can be handled while the store is unreachable");
    faults.set_outage(false);
    harness.advance(secs(2)).await;
    assert_eq!(marks.all(), ["a 0", "a 1", "a 2"]);
    let place = view(&engine, "mail", "a").await;
    assert_eq!((place.position, place.failures, place.blocked), (2, 0, None));
}
