//! `GET /runs/{id}/stream`: chunks and states of a run as server-sent events.

use std::{
    convert::Infallible,
    sync::{Arc, LazyLock},
    time::Duration,
};

use axum::{
    http::{HeaderMap, StatusCode},
    response::sse::{Event, KeepAlive, Sse},
};
use serde_json::json;
use tidegate::{Engine, RunId};
use tidegate_core::row::{Chunk, Ending};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::{Caller, body::RunOf, operation::Operation, problem::Problem, runs::RunView};

/// Returns the HTTP operations that this file defines.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/runs/{id}/stream", "followRun", run)
            .says(
                "Stream the progress of a run: `chunk`, `state`, and finally `end` or `replaced`. \
                 After `displaced` it follows the newer run.",
            )
            .answers_text(200, "Server-sent events.", "text/event-stream"),
    ]
}

/// Poll interval of a followed run.
const LOOK: Duration = Duration::from_millis(200);

/// Number of chunks that one read returns.
const CHUNKS: u32 = 100;

/// Maximum number of clients that follow runs, per server.
const FOLLOWERS: usize = 2000;

/// Number of messages that are buffered for a slow client before polling pauses.
const WAITING: usize = 16;

/// Sends `chunk` for each emitted chunk, `state` when the run's state changes, and finally `end`
/// with the result, or `replaced` with the run that replaced it. If a newer request replaced the
/// run before it started, it sends `displaced` and follows the newer run. A client that reconnects
/// with `Last-Event-ID` gets the chunks after that id.
pub(super) async fn run(
    caller: Caller,
    RunOf(run): RunOf,
    headers: HeaderMap,
) -> Result<Sse<impl futures_core::Stream<Item = Result<Event, Infallible>>>, Problem> {
    let engine = caller.engine.clone();
    engine.why(run).await?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    stream(engine, run, last.unwrap_or(0), None)
}

/// Streams a run, beginning after a given chunk, with an optional first message.
pub(super) fn stream(
    engine: Engine,
    run: RunId,
    after: u32,
    first: Option<Event>,
) -> Result<Sse<impl futures_core::Stream<Item = Result<Event, Infallible>>>, Problem> {
    let room = room()?;
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        let _room = room;
        if let Some(first) = first
            && sender.send(Ok(first)).await.is_err()
        {
            return;
        }
        let mut follower = Follower { engine, run, after, state: None };
        while let Ok(messages) = follower.look().await {
            for message in messages {
                let ends = ["end", "replaced"].contains(&message.0);
                if sender.send(Ok(message.into_event())).await.is_err() || ends {
                    return;
                }
            }
            tokio::select! {
                () = sender.closed() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    });
    Ok(Sse::new(Receiver(receiver)).keep_alive(KeepAlive::default()))
}

/// Takes the permit for one follower. The number is limited, because each polls the store several
/// times a second.
pub(super) fn room() -> Result<OwnedSemaphorePermit, Problem> {
    static ROOM: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(FOLLOWERS)));
    ROOM.clone().try_acquire_owned().map_err(|_| {
        let detail =
            format!("{FOLLOWERS} clients follow runs already; query the run or retry later");
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_readers", detail);
        problem.retry_after(10)
    })
}

pub(super) struct Receiver<T>(pub(super) mpsc::Receiver<T>);

impl<T> futures_core::Stream for Receiver<T> {
    type Item = T;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<T>> {
        self.0.poll_recv(cx)
    }
}

/// Returns all chunks of a run after sequence number `after`, and sets `after` to the last of them.
pub(super) async fn emitted(
    engine: &Engine,
    run: RunId,
    after: &mut u32,
) -> Result<Vec<Chunk>, tidegate::Error> {
    let mut all = Vec::new();
    loop {
        let chunks = match engine.chunks(run, *after, CHUNKS).await {
            Ok(chunks) => chunks,
            // The id is that of a window or buffer that has not become a run yet.
            Err(tidegate::Error::Refused(_)) => Vec::new(),
            Err(error) => return Err(error),
        };
        let more = chunks.len() >= CHUNKS as usize;
        *after = chunks.last().map_or(*after, |chunk| chunk.seq);
        all.extend(chunks);
        if !more {
            return Ok(all);
        }
    }
}

/// A server-sent event: its type, the sequence number of the chunk, and its data.
struct Message(&'static str, Option<u32>, String);

impl Message {
    fn into_event(self) -> Event {
        let event = Event::default().event(self.0).data(self.2);
        self.1.map_or(event.clone(), |place| event.id(place.to_string()))
    }
}

struct Follower {
    engine: Engine,
    run: RunId,
    after: u32,
    state: Option<&'static str>,
}

impl Follower {
    /// Returns the messages since the last poll.
    async fn look(&mut self) -> Result<Vec<Message>, tidegate::Error> {
        // The state is read before the chunks: a run that has ended emits no more chunks, so none
        // is missed.
        let (_, ended) = self.engine.look_up(self.run).await?;
        let mut messages = Vec::new();
        for chunk in emitted(&self.engine, self.run, &mut self.after).await? {
            messages.push(Message("chunk", Some(chunk.seq), chunk.data.as_str().to_owned()));
        }
        if let Some(newer) = ended.as_ref().and_then(|ended| ended.ending.carried_by()) {
            // The displaced run has emitted nothing, so `after` is still 0 and is right for the
            // newer run.
            (self.run, self.state) = (newer, None);
            messages.push(Message("displaced", None, json!({ "by": newer }).to_string()));
            return Ok(messages);
        }
        if let Some(ended) = ended {
            messages.push(match ended.ending {
                Ending::Cancelled { by: Some(by), .. } if ended.ending.deduped_by().is_none() => {
                    Message("replaced", None, json!({ "by": by }).to_string())
                }
                _ => {
                    let view = serde_json::to_string(&RunView::from(&ended));
                    Message("end", None, view.unwrap_or_default())
                }
            });
            return Ok(messages);
        }
        let state = self.engine.why(self.run).await?.state;
        if self.state.replace(state) != Some(state) {
            let said = json!({ "id": self.run, "state": state }).to_string();
            messages.push(Message("state", None, said));
        }
        Ok(messages)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::ending::Ending, Follower};

    /// The last chunks of a run are sent before its end, whichever read of a poll the run ends
    /// after.
    #[tokio::test]
    async fn the_last_chunks_come_before_the_end() {
        for reads in 0..8 {
            let ending = Ending::begin().await;
            let mut follower =
                Follower { engine: ending.engine.clone(), run: ending.run, after: 0, state: None };
            ending.end_behind(reads);
            let mut said = Vec::new();
            while said.last().is_none_or(|(kind, _)| *kind != "end") {
                let messages = follower.look().await.unwrap();
                said.extend(messages.into_iter().map(|it| (it.0, it.2)));
            }
            said.pop();
            said.retain(|(kind, _)| *kind != "state");
            let chunks = ["first", "last"].map(|it| ("chunk", format!("\"{it}\"")));
            assert_eq!(said, chunks, "wrong chunks; the run ends after read {reads}");
            ending.engine.shutdown().await;
        }
    }
}
