//! `GET /events/stream` and `GET /runs/stream`: new events and runs as server-sent events.
//!
//! The streams may miss rows; only the lists (`GET /events`, `GET /runs`) are complete. One poll of
//! the store serves all subscribers of a workspace, and without subscribers the store is not
//! polled.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Extension,
    http::{HeaderMap, StatusCode},
    response::{
        IntoResponse, Response,
        sse::{self, KeepAlive, Sse},
    },
};
use tidegate::{Engine, Error};
use tidegate_core::{
    id::Seq,
    list::RunFilter,
    observe::{Part, events::Name},
    row::{Event, Row, RowKey},
};
use tokio::sync::{Mutex, broadcast, mpsc};

use super::{
    Caller, console_feed::LIFE, events_query::EventView, operation::Operation, problem::Problem,
    run_stream::Receiver, runs::view,
};
use crate::listen;

/// Poll interval of the store, for all subscribers of one workspace.
const LOOK: Duration = Duration::from_millis(500);

/// Number of events, or of newest runs, that one poll reads. If more are new, subscribers get the
/// message `gap`.
const SEEN: u32 = 100;

/// Number of poll results that are buffered for a subscriber. If it lags further, it misses some
/// and gets the message `gap`.
const BEHIND: usize = 16;

/// Maximum number of subscribers of one server: each is a connection and a queue.
const READERS: usize = 1000;

/// Returns the HTTP operations that this file defines.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/events/stream", "tailEvents", events)
            .says("Stream posted events: `events`, and `gap` where some were missed.")
            .answers_text(200, "Server-sent events.", "text/event-stream"),
        Operation::get("/runs/stream", "tailRuns", runs)
            .says("Stream the newest runs and their changes: `runs`, and `gap`.")
            .answers_text(200, "Server-sent events.", "text/event-stream"),
    ]
}

/// Kind of rows of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Events,
    Runs,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Runs => "runs",
        }
    }

    /// Returns the newest rows, oldest first: sequence number and JSON. The JSON is serialized
    /// directly and not through a `Value`, which cannot hold every payload.
    async fn newest(self, engine: &Engine, limit: u32) -> Result<Vec<(Seq, String)>, Error> {
        let mut seen: Vec<_> = match self {
            Self::Events => {
                let page = engine.events(&Name::Any, Part { below: None, limit }).await?;
                let item = |event: &Event| {
                    Some((event.id.seq, serde_json::to_string(&EventView::listed(event)).ok()?))
                };
                page.items.iter().filter_map(item).collect()
            }
            Self::Runs => {
                let page = engine.runs(&RunFilter::default(), None, limit).await?;
                let item =
                    |row: &Row| Some((number(row)?, serde_json::to_string(&view(row)?).ok()?));
                page.runs.iter().filter_map(item).collect()
            }
        };
        seen.reverse();
        Ok(seen)
    }
}

pub(super) fn number(row: &Row) -> Option<Seq> {
    if let RowKey::Run(seq) | RowKey::Ended(seq) = row.key() { Some(seq) } else { None }
}

/// The new rows of one poll.
#[derive(Debug)]
struct News {
    /// Whether rows may be missing between the last poll and this one.
    gap: bool,
    /// Sequence number and JSON, oldest first.
    items: Vec<(Seq, String)>,
}

/// All active streams of this server.
#[derive(Clone, Debug, Default)]
pub(super) struct Tails(Arc<Mutex<BTreeMap<Place, NewsSender>>>);

/// Key of a stream: its workspace and its kind.
type Place = (String, Kind);

/// Sender to all subscribers of one stream.
type NewsSender = broadcast::Sender<Arc<News>>;

impl Tails {
    /// Subscribes to a stream, and starts it if there is none.
    async fn join(
        &self,
        engine: &Engine,
        kind: Kind,
    ) -> Result<broadcast::Receiver<Arc<News>>, Problem> {
        let key = (engine.workspace().to_owned(), kind);
        if let Some(receiver) = joined(&*self.0.lock().await, &key)? {
            return Ok(receiver);
        }
        // The first poll happens without the lock: otherwise subscribers of other streams would
        // wait for it too. It happens before the response, so a subscriber misses no row that is
        // created after its response.
        let tail = Tail::begin(engine.clone(), kind).await?;
        let mut tails = self.0.lock().await;
        if let Some(receiver) = joined(&tails, &key)? {
            return Ok(receiver);
        }
        let (sender, receiver) = broadcast::channel(BEHIND);
        tails.insert(key.clone(), sender.clone());
        tokio::spawn(tail.run(self.clone(), key, sender));
        Ok(receiver)
    }
}

/// Subscribes to a stream that is already active.
fn joined(
    tails: &BTreeMap<Place, NewsSender>,
    key: &Place,
) -> Result<Option<broadcast::Receiver<Arc<News>>>, Problem> {
    if tails.values().map(broadcast::Sender::receiver_count).sum::<usize>() >= READERS {
        let detail =
            format!("the server has {READERS} subscribers already; read the lists or retry later");
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_readers", detail);
        return Err(problem.retry_after(10));
    }
    Ok(tails.get(key).map(broadcast::Sender::subscribe))
}

/// Poller of one stream.
struct Tail {
    engine: Engine,
    kind: Kind,
    /// Rows of the last poll, by sequence number.
    last: BTreeMap<Seq, String>,
}

impl Tail {
    async fn begin(engine: Engine, kind: Kind) -> Result<Self, Error> {
        let last = kind.newest(&engine, SEEN).await?.into_iter().collect();
        Ok(Self { engine, kind, last })
    }

    /// Polls until there are no subscribers.
    async fn run(mut self, tails: Tails, key: Place, sender: NewsSender) {
        loop {
            tokio::time::sleep(LOOK).await;
            if sender.receiver_count() == 0 {
                // No client can subscribe while this lock is held.
                let mut tails = tails.0.lock().await;
                if sender.receiver_count() == 0 {
                    tails.remove(&key);
                    return;
                }
            }
            match self.look().await {
                Ok(Some(news)) => drop(sender.send(Arc::new(news))),
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, kind = ?self.kind, "polling new rows failed"),
            }
        }
    }

    /// Returns the rows that are new or have changed since the last poll.
    async fn look(&mut self) -> Result<Option<News>, Error> {
        let last = self.last.keys().next_back().copied();
        if self.kind == Kind::Events {
            // Events never change, so the newest one shows whether there are new ones.
            let newest = self.kind.newest(&self.engine, 1).await?;
            if newest.last().map(|(seq, _)| *seq) <= last {
                return Ok(None);
            }
        }
        let seen = self.kind.newest(&self.engine, SEEN).await?;
        let news = compare(&self.last, &seen, SEEN as usize);
        self.last = seen.into_iter().collect();
        Ok(news)
    }
}

/// Compares two successive polls of at most `most` rows each.
fn compare(before: &BTreeMap<Seq, String>, seen: &[(Seq, String)], most: usize) -> Option<News> {
    let last = before.keys().next_back().copied();
    let new = |seq: &Seq| last.is_none_or(|last| *seq > last);
    let gap = seen.len() >= most && last.is_some() && seen.iter().all(|it| new(&it.0));
    let changed = |(seq, text): &&(Seq, String)| match before.get(seq) {
        Some(before) => before != text,
        // An old row that reappears among the newest, because newer rows were deleted, was sent
        // before.
        None => new(seq),
    };
    let items: Vec<_> = seen.iter().filter(changed).cloned().collect();
    (!items.is_empty()).then_some(News { gap, items })
}

type Answer = Result<Response, Problem>;

async fn events(caller: Caller, headers: HeaderMap, Extension(tails): Extension<Tails>) -> Answer {
    tail(caller.engine, Kind::Events, &headers, &tails).await
}

async fn runs(caller: Caller, headers: HeaderMap, Extension(tails): Extension<Tails>) -> Answer {
    tail(caller.engine, Kind::Runs, &headers, &tails).await
}

async fn tail(engine: Engine, kind: Kind, headers: &HeaderMap, tails: &Tails) -> Answer {
    let after = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().map(Seq).ok());
    let mut news = tails.join(&engine, kind).await?;
    let missed = match after {
        Some(after) => Some(missed(&engine, kind, after).await?),
        None => None,
    };
    // Missed rows are sent first. The poller may find them again: these are not sent twice.
    let mut sent: BTreeMap<Seq, String> = BTreeMap::new();
    sent.extend(missed.iter().flat_map(|missed| missed.items.clone()));
    let (sender, receiver) = mpsc::channel(BEHIND);
    tokio::spawn(async move {
        if let Some(missed) = missed
            && say(&sender, kind, missed.gap, &missed.items).await.is_err()
        {
            return;
        }
        let mut closing = std::pin::pin!(tokio::time::sleep(LIFE));
        loop {
            let next = tokio::select! {
                () = sender.closed() => return,
                () = listen::stopping() => return,
                () = &mut closing => return,
                next = news.recv() => next,
            };
            let said = match next {
                Ok(news) => {
                    let fresh = |it: &&(Seq, String)| sent.remove(&it.0).as_ref() != Some(&it.1);
                    let fresh: Vec<_> = news.items.iter().filter(fresh).cloned().collect();
                    say(&sender, kind, news.gap, &fresh).await
                }
                Err(broadcast::error::RecvError::Lagged(_)) => say(&sender, kind, true, &[]).await,
                Err(broadcast::error::RecvError::Closed) => return,
            };
            if said.is_err() {
                return;
            }
        }
    });
    Ok(Sse::new(Receiver(receiver)).keep_alive(KeepAlive::default()).into_response())
}

/// Returns the rows after a sequence number, as many as one poll reads.
async fn missed(engine: &Engine, kind: Kind, after: Seq) -> Result<News, Error> {
    let mut items = kind.newest(engine, SEEN).await?;
    let gap = items.len() >= SEEN as usize && items.first().is_some_and(|(seq, _)| *seq > after);
    items.retain(|(seq, _)| *seq > after);
    Ok(News { gap, items })
}

/// Sends all new rows as one message, whose id is the greatest sequence number. If rows were
/// missed, it sends the message `gap` first.
async fn say(
    sender: &mpsc::Sender<Result<sse::Event, Infallible>>,
    kind: Kind,
    gap: bool,
    items: &[(Seq, String)],
) -> Result<(), mpsc::error::SendError<Result<sse::Event, Infallible>>> {
    if gap {
        sender.send(Ok(sse::Event::default().event("gap").data("{}"))).await?;
    }
    let Some(last) = items.iter().map(|(seq, _)| *seq).max() else { return Ok(()) };
    let texts: Vec<_> = items.iter().map(|(_, text)| text.as_str()).collect();
    let name = kind.as_str();
    let data = format!("{{\"{name}\":[{}]}}", texts.join(","));
    sender.send(Ok(sse::Event::default().event(name).id(last.to_string()).data(data))).await
}

#[cfg(test)]
mod tests {
    use super::{Seq, compare};

    /// Parses test rows, such as `1a 2b`: sequence number 1 with text `a`, 2 with `b`.
    fn rows(text: &str) -> Vec<(Seq, String)> {
        let row = |it: &str| (Seq(it[..1].parse().unwrap()), it[1..].to_owned());
        text.split_whitespace().map(row).collect()
    }

    #[test]
    fn what_was_shown_is_not_shown_again() {
        for (before, now, expected) in [
            ("1a 2a", "1a 2a", None),
            ("1a 2a", "2a 3a", Some((false, "3a"))),
            ("1a 2a", "1b 2a 3a", Some((false, "1b 3a"))),
            ("", "1a 2a 3a", Some((false, "1a 2a 3a"))),
            ("1a 2a", "3a 4a", Some((false, "3a 4a"))),
            ("1a 2a", "3a 4a 5a", Some((true, "3a 4a 5a"))),
            // A newer row was deleted, and an old one is among the newest again.
            ("3a 4a 5a", "2a 3a 4a", None),
            ("3a 4a 5a", "2a 3b 4a", Some((false, "3b"))),
        ] {
            let news = compare(&rows(before).into_iter().collect(), &rows(now), 3);
            let expected = expected.map(|(gap, items)| (gap, rows(items)));
            assert_eq!(
                news.map(|it| (it.gap, it.items)),
                expected,
                "new rows of the poll `{now}` after `{before}`"
            );
        }
    }
}
