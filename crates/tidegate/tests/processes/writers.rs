//! Processes that write to streams and follow them, and their journal lines.
//!
//! Each event has a key. It is written to the journal before the commit (`try`), and again with the
//! event's position when the store has answered (`done`). So the journal shows which events must be
//! stored, and which may be stored because their process was killed in between.

use serde::{Deserialize, Serialize};
use tidegate::{Engine, Error, Query, State, events};
use tidegate_core::{command::Refusal, stream::Expected, stream::StreamRefusal};

use crate::child::{Me, pause, wait_for_door};

/// Number of events that one process commits concurrently, so that they share transactions.
pub(crate) const CALLERS: usize = 4;

/// Door that the test opens when all processes are ready, so that they start at the same time.
pub(crate) const BEGIN: &str = "begin";

/// Door that the test opens when no more events will be committed.
pub(crate) const OVER: &str = "over";

/// Stream on which all processes execute actions.
pub(crate) const ONE: &str = "tally";

/// Event of the streams.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Work {
    Counted {
        key: String,
        /// Version that the event was decided on; `None` for a plain append.
        after: Option<i64>,
    },
}

/// State of a stream: the number of its events.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Tally {
    count: i64,
}

impl State for Tally {
    type Event = Work;

    fn apply(&mut self, _: &Work) {
        self.count += 1;
    }
}

/// Commits events to several streams, half of them with an expected version.
pub(crate) async fn commit(me: &'static Me, commits: usize, streams: usize) {
    let engine = ready(me).await;
    let callers = (0..CALLERS).map(|caller| {
        let engine = engine.clone();
        tokio::spawn(async move {
            for n in (caller..commits).step_by(CALLERS) {
                let stream = format!("work-{}", n % streams);
                commit_one(me, &engine, &stream, n, n % 2 == 0).await;
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    me.note("over");
}

async fn commit_one(me: &Me, engine: &Engine, stream: &str, n: usize, pinned: bool) {
    let key = format!("{}.{n}", me.name());
    me.note(&format!("try {key}"));
    loop {
        let after = if pinned {
            let head = engine.streams().head(stream).await.unwrap();
            Some(head.map_or(-1, |head| head.version))
        } else {
            None
        };
        let event = events::of(&Work::Counted { key: key.clone(), after }).unwrap();
        let expected = after.map(Expected::after);
        match engine.streams().commit(stream, vec![event], expected).await {
            Ok(done) => return say_done(me, &key, stream, done[0].version, done[0].position),
            Err(Error::Refused(Refusal::Stream(StreamRefusal::Conflict { .. }))) => {
                me.note("conflict");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Executes actions on one stream, at the same time as other processes.
pub(crate) async fn act(me: &'static Me, acts: usize) {
    let engine = ready(me).await;
    let callers = (0..CALLERS).map(|caller| {
        // Many retries, because 8 processes sometimes use up the default of 32.
        let stream = engine.stream::<Tally>(ONE).retries(10_000);
        tokio::spawn(async move {
            for n in (caller..acts).step_by(CALLERS) {
                let key = format!("{}.{n}", me.name());
                me.note(&format!("try {key}"));
                let decide = |tally: &Tally| {
                    Ok::<_, Error>(vec![Work::Counted {
                        key: key.clone(),
                        after: Some(tally.count - 1),
                    }])
                };
                let acted = stream.act(decide).await.unwrap();
                let event = &acted.events[0];
                say_done(me, &key, ONE, event.version, event.position);
                for _ in 1..acted.attempts {
                    me.note("conflict");
                }
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    me.note("over");
}

/// Reads all events in the order of their positions, while other processes commit.
pub(crate) async fn follow(me: &'static Me) {
    let engine = ready(me).await;
    let mut query = Query::all().limit(500);
    loop {
        // The door is checked before the read: if it is open, the read returns all events that
        // there will be.
        let over = me.door(OVER).exists();
        let page = engine.streams().read(&query).await.unwrap();
        for event in &page.events {
            me.note(&format!("seen {}", event.position));
        }
        query = query.from(page.cursor);
        if over && !page.more {
            return me.note("over");
        }
        if page.events.is_empty() {
            pause(std::time::Duration::from_millis(5)).await;
        }
    }
}

async fn ready(me: &'static Me) -> Engine {
    let engine = me.engine().await.start().await.unwrap();
    me.note("ready");
    wait_for_door(&me.door(BEGIN)).await;
    engine
}

fn say_done(me: &Me, key: &str, stream: &str, version: i64, position: i64) {
    me.note(&format!("done {key} {stream} {version} {position}"));
}
