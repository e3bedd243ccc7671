//! Closing of a stream: commit the guard, wait for reactions, archive, truncate, and optionally
//! restart.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use serde::Serialize;
use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Refusal, StreamAnswer, StreamCommand},
    json::Payload,
    reads::{ReadSet, Scan},
    row::{Row, RowKey, Stream, StreamEventRow},
    stream::{
        Behind, Close, ClosePhase, Expected, Restart, SNAPSHOT, StreamRefusal, TRUNCATE_CHUNK,
        Truncated, close_phase,
    },
};

use crate::{
    api::{Engine, payload, unexpected},
    error::Error,
    step_error::Result as Handled,
    timer::BoxFuture,
};

type Archive = Arc<dyn Fn(Vec<StreamEventRow>) -> BoxFuture<Handled<()>> + Send + Sync>;

/// First and maximum interval between two checks while a close waits. The interval doubles each
/// time.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LAST_LOOK: Duration = Duration::from_secs(2);

/// Options for closing a stream.
#[derive(Clone)]
#[must_use]
pub struct Closing {
    stream: String,
    expected: Option<Expected>,
    meta: Value,
    archive: Option<Archive>,
    snapshot: Option<Result<Payload, Error>>,
    wait: Duration,
}

impl fmt::Debug for Closing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stream, expected, wait, .. } = self;
        write!(f, "Closing({stream}, expected {expected:?}, waits {wait:?})")
    }
}

impl Closing {
    /// Creates options that close the stream at any version, archive nothing, and do not wait.
    pub fn new(stream: &str) -> Self {
        let (stream, wait) = (stream.to_owned(), Duration::ZERO);
        Self { stream, expected: None, meta: json!({}), archive: None, snapshot: None, wait }
    }

    /// Closes the stream only if it is at this version; otherwise the close is refused as a
    /// conflict.
    pub fn expecting(mut self, expected: Expected) -> Self {
        self.expected = Some(expected);
        self
    }

    /// Sets the metadata of the guard event, such as who closes the stream and why.
    pub fn meta(mut self, meta: Value) -> Self {
        self.meta = meta;
        self
    }

    /// Archives the events before they are deleted, in batches and in order.
    ///
    /// After a crash, archiving starts again from the first event, so it must be safe to archive
    /// the same events twice.
    pub fn archive<F, Fut>(mut self, archive: F) -> Self
    where
        F: Fn(Vec<StreamEventRow>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Handled<()>> + Send + 'static,
    {
        self.archive = Some(Arc::new(move |events| Box::pin(archive(events))));
        self
    }

    /// Restarts the stream at version 0 with a snapshot of its state.
    ///
    /// This needs [`expecting`](Self::expecting): otherwise a repeated call would close the
    /// restarted stream.
    pub fn restart(mut self, snapshot: impl Serialize) -> Self {
        self.snapshot = Some(payload(snapshot));
        self
    }

    /// Sets the maximum time to wait for reactions and leases.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }
}

/// Progress of closing a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseProgress {
    /// The stream is closed, but its events are kept, because these reactions and leases still need
    /// them. Call [`Engine::close`] again later.
    Waits(Vec<Behind>),
    /// The stream is closed, and all its events are deleted except the guard.
    Closed {
        /// Version of the guard event.
        guard: i64,
    },
    /// The stream was closed and deleted, and has been restarted.
    Restarted,
}

impl Engine {
    /// Closes a stream: no more events can be committed to it. When all reactions have passed its
    /// end and no lease is held, its events are archived and deleted.
    ///
    /// # Cancellation
    ///
    /// If this future is dropped before it completes, call `close` again with the same options to
    /// continue.
    pub async fn close(&self, closing: &Closing) -> Result<CloseProgress, Error> {
        if closing.snapshot.is_some() && closing.expected.is_none() {
            let text = "a restart needs the version that the stream is expected at";
            return Err(Error::Value(format!("stream `{}`: {text}", closing.stream)));
        }
        let timer = self.timer();
        let deadline = timer.elapsed().saturating_add(closing.wait);
        let mut look = FIRST_LOOK;
        loop {
            match self.close_phase(&closing.stream).await? {
                ClosePhase::Open => {
                    if self.guard(closing).await? {
                        return Ok(CloseProgress::Restarted);
                    }
                }
                ClosePhase::Waiting(behind) if timer.elapsed() >= deadline => {
                    return Ok(CloseProgress::Waits(behind));
                }
                ClosePhase::Waiting(_) => {
                    timer.sleep_until((timer.elapsed() + look).min(deadline)).await;
                    look = (look * 2).min(LAST_LOOK);
                }
                ClosePhase::Settled => {
                    self.archive(closing).await?;
                    self.truncate(&closing.stream).await?;
                }
                ClosePhase::Truncating => self.truncate(&closing.stream).await?,
                ClosePhase::Truncated => return self.finish(closing).await,
            }
        }
    }

    async fn close_phase(&self, stream: &str) -> Result<ClosePhase, Error> {
        let snapshot = self.store().read(ReadSet::default().catalog(&self.ws())).await?;
        let catalog = snapshot.catalogs.get(&self.ws()).cloned().unwrap_or_default();
        let (ws, followers) = (self.ws(), catalog.followers());
        self.question(|draft| close_phase::<Refusal>(draft, &ws, stream, followers)).await
    }

    /// Commits the guard event. Returns `true` if an earlier call with these options has already
    /// closed and restarted the stream.
    async fn guard(&self, closing: &Closing) -> Result<bool, Error> {
        let Closing { stream, expected, meta, .. } = closing.clone();
        let close = Close { ws: self.ws(), stream, expected, meta: Payload::from_value(&meta) };
        match self.ask_streams(StreamCommand::Close(close)).await {
            Err(Error::Refused(Refusal::Stream(conflict @ StreamRefusal::Conflict { .. }))) => {
                let begun = closing.snapshot.is_some() && self.has_begun_anew(closing).await?;
                if begun { Ok(true) } else { Err(Refusal::Stream(conflict).into()) }
            }
            answer => answer.map(|_| false),
        }
    }

    /// Returns whether the first event of the stream is the snapshot of this close.
    async fn has_begun_anew(&self, closing: &Closing) -> Result<bool, Error> {
        let guard = match closing.expected {
            Some(Expected::Version(version) | Expected::Of(_, version)) => version + 1,
            Some(Expected::NoStream) | None => 0,
        };
        let Some(row) = self.stream_row(&closing.stream).await? else { return Ok(false) };
        let first = self.logged(&row, 0, 1).await?;
        let is_it = |event: &StreamEventRow| {
            let meta: Value = serde_json::from_str(event.meta.as_str()).unwrap_or_default();
            event.name == SNAPSHOT && meta["closedAt"] == json!(guard)
        };
        Ok(first.first().is_some_and(is_it))
    }

    async fn archive(&self, closing: &Closing) -> Result<(), Error> {
        let Some(archive) = &closing.archive else { return Ok(()) };
        let Some(row) = self.stream_row(&closing.stream).await? else { return Ok(()) };
        let mut from = 0;
        loop {
            let mut events = self.logged(&row, from, TRUNCATE_CHUNK).await?;
            // The guard event is neither archived nor deleted.
            events.retain(|event| event.version < row.head);
            let Some(last) = events.last().map(|event| event.version) else { return Ok(()) };
            archive(events).await.map_err(Error::Archive)?;
            from = last + 1;
        }
    }

    /// Deletes events in chunks, until all are deleted, or until a reaction or lease needs them
    /// again.
    async fn truncate(&self, stream: &str) -> Result<(), Error> {
        loop {
            let (stream, limit) = (stream.to_owned(), TRUNCATE_CHUNK);
            match self.ask_streams(StreamCommand::Truncate { stream, limit }).await? {
                StreamAnswer::Truncated(Truncated::Partly(_)) => {}
                StreamAnswer::Truncated(Truncated::Done(_) | Truncated::Waits(_)) => return Ok(()),
                other => return Err(unexpected(&Answer::Stream(other))),
            }
        }
    }

    async fn finish(&self, closing: &Closing) -> Result<CloseProgress, Error> {
        let row = self.stream_row(&closing.stream).await?;
        let guard = row.map_or(-1, |row| row.head);
        let Some(snapshot) = closing.snapshot.clone() else {
            return Ok(CloseProgress::Closed { guard });
        };
        let meta = Payload::from_value(&json!({ "closedAt": guard }));
        let (ws, stream) = (self.ws(), closing.stream.clone());
        let restart = Restart { ws, stream, snapshot: snapshot?, meta };
        self.ask_streams(StreamCommand::Restart(restart)).await?;
        Ok(CloseProgress::Restarted)
    }

    async fn stream_row(&self, stream: &str) -> Result<Option<Stream>, Error> {
        let key = RowKey::Stream(self.ws(), stream.to_owned());
        let snapshot = self.store().read(ReadSet::default().row(key.clone())).await?;
        Ok(match snapshot.rows.get(&key) {
            Some(Some(Row::Stream(row))) => Some(row.clone()),
            _ => None,
        })
    }

    async fn logged(
        &self,
        stream: &Stream,
        from: i64,
        count: u32,
    ) -> Result<Vec<StreamEventRow>, Error> {
        let scan = Scan::Log(stream.id, from);
        let snapshot = self.store().read(ReadSet::default().scan(scan.clone(), count)).await?;
        let rows = snapshot.found(&scan).into_iter();
        let events = rows.filter_map(|row| match row {
            Row::StreamEventRow(event) => Some(event.clone()),
            _ => None,
        });
        Ok(events.collect())
    }
}
