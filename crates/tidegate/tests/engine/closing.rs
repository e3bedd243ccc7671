//! Closing of streams: guard, wait, archive, truncate, and restart.

use std::time::Duration;

use serde_json::json;
use tidegate::{
    CloseProgress, Closing, Error, Reaction, ReactionCtx, StepError, testing::TestHarness,
};
use tidegate_core::{row::StreamEventRow, stream::Expected};

use crate::{
    faults::{Failure, Faults},
    reactions::{append, append_quietly, log, looking, noting, numbered, view},
    words::{Journal, Marks, secs},
};

fn archiving(stream: &str, marks: &Marks) -> Closing {
    let marks = marks.clone();
    Closing::new(stream).archive(move |events: Vec<StreamEventRow>| {
        for event in events {
            marks.mark(event.version.to_string());
        }
        async { Ok(()) }
    })
}

/// spec B218, B219, N74: a close first commits the guard event. While a reaction has not reached
/// the guard or holds a lease, the close waits and names the reaction. Then it archives the events
/// in order and deletes all but the guard. A repeated close has no effect.
pub(crate) async fn a_close_waits_for_reactions_and_says_for_whom(harness: &TestHarness) {
    let (journal, archive) = (Journal::new(harness), Marks::default());
    let engine =
        looking(harness).reaction(noting(&journal, "mail", secs(5))).start().await.unwrap();
    append(harness, "a", &numbered(3)).await;
    let closing = archiving("a", &archive);
    let wrong = engine.close(&closing.clone().expecting(Expected::Version(7))).await.unwrap_err();
    assert!(wrong.to_string().contains("expected version 7, got version 2"), "{wrong}");
    let CloseProgress::Waits(behind) = engine.close(&closing).await.unwrap() else {
        panic!("the close must wait while a handler is running")
    };
    assert_eq!((behind.len(), behind[0].reaction.as_str(), behind[0].at), (1, "mail", -1));
    assert!(behind[0].lease.is_some(), "the close must report the lease: {behind:?}");
    assert_eq!(archive.all(), [""; 0]);
    harness.advance(secs(20)).await;
    assert_eq!(
        journal.take(),
        ["a 0", "a 1", "a 2"],
        "handlers must get all events except the guard"
    );
    let view = view(&engine, "mail", "a").await;
    assert_eq!((view.position, view.want), (3, 3));
    for _ in 0..2 {
        let closed = engine.close(&closing).await.unwrap();
        assert_eq!(closed, CloseProgress::Closed { guard: 3 });
    }
    assert_eq!(archive.all(), ["0", "1", "2"], "once");
    let left = log(harness, "a").await;
    assert_eq!(left.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["$closed"]);
}

/// spec N74: if archiving fails, the stream stays closed and keeps all its events, and the close
/// can be repeated. The close waits for reactions as long as its options say.
pub(crate) async fn a_failed_archive_can_be_tried_again(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let engine =
        looking(harness).reaction(noting(&journal, "mail", secs(5))).start().await.unwrap();
    append_quietly(harness, "a", &numbered(100)).await;
    let failing = Closing::new("a").wait(Duration::from_secs(3600)).archive(async |events| {
        if events[0].version > 0 { Err(StepError::new("the disk is full")) } else { Ok(()) }
    });
    let (waiting, wishes) = (engine.clone(), failing.clone());
    let waiting = tokio::spawn(async move { waiting.close(&wishes).await });
    harness.advance(secs(600)).await;
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Archive(_)), "{error:?}");
    assert_eq!(log(harness, "a").await.len(), 101);
    let archive = Marks::default();
    let closed = engine.close(&archiving("a", &archive)).await.unwrap();
    assert_eq!((closed, archive.all().len()), (CloseProgress::Closed { guard: 100 }, 100));
}

/// spec N74: a close with a snapshot restarts the stream at version 0. Reactions that have handled
/// the old events continue after the snapshot. A repeated close reports that the stream was
/// restarted.
pub(crate) async fn a_restarted_stream_begins_with_its_snapshot(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let reaction = noting(&journal, "mail", Duration::ZERO);
    let engine = looking(harness).reaction(reaction).start().await.unwrap();
    append(harness, "a", &numbered(3)).await;
    let closing = Closing::new("a").restart(json!({ "sum": 3 }));
    assert!(engine.close(&closing).await.unwrap_err().to_string().contains("expected at"));
    let closing = closing.expecting(Expected::Version(2));
    // The reaction has to pass the guard event first. It may already have done so.
    if engine.close(&closing).await.unwrap() != CloseProgress::Restarted {
        harness.settle().await;
    }
    for _ in 0..2 {
        assert_eq!(engine.close(&closing).await.unwrap(), CloseProgress::Restarted);
    }
    journal.take();
    append(harness, "a", &numbered(1)).await;
    assert_eq!(journal.take(), ["a 1"]);
    let events = log(harness, "a").await;
    assert_eq!((events[0].name.as_str(), events[0].data.as_str()), ("$snapshot", r#"{"sum":3}"#));
    assert_eq!(events.len(), 2);
}

/// An interrupted close can be continued, whichever of its transactions fails, before or after it
/// is durable. Every event is in the archive.
pub(crate) async fn an_interrupted_close_goes_on(harness: &TestHarness, faults: &Faults) {
    let reaction = Reaction::new("mail").on_any(async |_: ReactionCtx, _| Ok(()));
    let engine = looking(harness).reaction(reaction).start().await.unwrap();
    for failure in [Failure::BeforeCommit, Failure::AfterCommit, Failure::Unavailable] {
        for after in 0..7 {
            let stream = format!("{failure:?}-{after}");
            append(harness, &stream, &numbered(150)).await;
            let archive = Marks::default();
            let closing = archiving(&stream, &archive).expecting(Expected::Version(149));
            let closing = closing.restart(json!(150));
            faults.fail(after, failure);
            let mut tries = 0;
            loop {
                tries += 1;
                assert!(tries < 20, "stream {stream} is still not closed after 20 attempts");
                if matches!(engine.close(&closing).await, Ok(CloseProgress::Restarted)) {
                    break;
                }
                harness.advance(secs(40)).await;
            }
            let mut archived = archive.all();
            archived.sort();
            archived.dedup();
            assert_eq!(archived.len(), 150, "{stream}");
            let events = log(harness, &stream).await;
            assert_eq!((events.len(), events[0].data.as_str()), (1, "150"), "{stream}");
            harness.advance(secs(40)).await;
        }
    }
}
