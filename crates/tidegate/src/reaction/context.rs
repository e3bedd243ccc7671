//! Context of a reaction's handler: the event, and the effects that are committed with its ack.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::Serialize;
use serde_json::json;
use tidegate_core::{
    event::NewEvent,
    json::{MAX_EVENT_BYTES, Payload},
    reaction::Effect,
    request::Request,
    stream::NewLogged,
    time::Timestamp,
};

use crate::{
    engine::Shared,
    events,
    handler::check_name,
    step_error::{Result, StepError},
    stream::StreamEvent,
};

/// Context of the handler of one event.
///
/// Cheap to clone. The context collects commits, sent events and calls. They are committed after
/// the handler has returned, together with the ack of the event, or not at all.
#[derive(Clone)]
pub struct ReactionCtx(Arc<Inner>);

struct Inner {
    reaction: String,
    event: StreamEvent,
    now: Timestamp,
    shared: Arc<Shared>,
    wanted: Mutex<Wanted>,
}

/// Effects that the handler has requested.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) effects: Vec<Effect>,
    /// Time to which the event is deferred.
    pub(super) later: Option<Timestamp>,
}

impl fmt::Debug for ReactionCtx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { reaction, event, .. } = &*self.0;
        write!(f, "ReactionCtx({reaction}, {} version {})", event.stream, event.version)
    }
}

impl ReactionCtx {
    pub(super) fn new(
        reaction: &str,
        event: StreamEvent,
        now: Timestamp,
        shared: Arc<Shared>,
    ) -> Self {
        let reaction = reaction.to_owned();
        Self(Arc::new(Inner { reaction, event, now, shared, wanted: Mutex::default() }))
    }

    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.0.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the effects requested so far.
    pub(super) fn take(&self) -> Wanted {
        std::mem::take(&mut *self.wanted())
    }

    /// Returns the reaction's name.
    pub fn reaction(&self) -> &str {
        &self.0.reaction
    }

    /// Returns a value that the program gave to its engine, as [`Ctx::state`](crate::Ctx::state)
    /// does.
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<&T> {
        self.0.shared.state.get(format_args!("reaction `{}`", self.reaction()))
    }

    /// Returns the stream's name.
    pub fn stream(&self) -> &str {
        &self.0.event.stream
    }

    /// Returns the event as it was committed, with its id, version, position, name, data, time and
    /// metadata.
    pub fn event(&self) -> &StreamEvent {
        &self.0.event
    }

    /// Returns the correlation id of the event, or the event's id if it has none.
    pub fn correlation(&self) -> String {
        let of_event = self.0.event.correlation.clone();
        of_event.unwrap_or_else(|| self.0.event.id.to_string())
    }

    /// Returns an idempotency key for external effects, the same whenever this reaction handles
    /// this event.
    pub fn idempotency_key(&self) -> String {
        format!("{}/{}", self.0.reaction, self.0.event.id)
    }

    /// Appends events to the end of a stream, whatever its version is by then.
    ///
    /// The new events have the correlation id of the handled event, and name it as their cause.
    pub fn commit<E: Serialize>(
        &self,
        stream: &str,
        events: impl IntoIterator<Item = E>,
    ) -> Result<()> {
        let named = events.into_iter().map(|event| Ok(events::name_and_data(&event)?));
        self.append(stream, named.collect::<Result<Vec<_>>>()?);
        Ok(())
    }

    /// Appends one event, with this name and data, to the end of a stream.
    pub fn commit_named(&self, stream: &str, name: &str, data: impl Serialize) -> Result<()> {
        self.append(stream, vec![(name.to_owned(), payload(&data)?)]);
        Ok(())
    }

    fn append(&self, stream: &str, named: Vec<(String, Payload)>) {
        let (correlation, causation) = (self.correlation(), self.0.event.id);
        let meta =
            Payload::from_value(&json!({ "correlation": correlation, "causation": causation }));
        let events =
            named.into_iter().map(|(name, data)| NewLogged { name, data, meta: meta.clone() });
        let effect = Effect::Commit { stream: stream.to_owned(), events: events.collect() };
        self.wanted().effects.push(effect);
    }

    /// Posts an event. It starts the workflows that it triggers, and wakes runs that wait for it.
    pub fn send(&self, name: &str, data: impl Serialize) -> Result<()> {
        check_name(name).map_err(|rule| {
            StepError::coded("BadName", format!("event name `{name}` {rule}")).fatal()
        })?;
        let (name, data) = (name.to_owned(), payload(&data)?);
        let event = NewEvent::new(name, data);
        self.wanted().effects.push(Effect::Send(event));
        Ok(())
    }

    /// Starts a run of an action, as a request does.
    pub fn start(&self, request: Request) {
        self.wanted().effects.push(Effect::Call(request));
    }

    /// Defers the stream: this event is handled again at that time, and the later events of the
    /// stream wait as well.
    ///
    /// A deferral is not a failure. All effects that the handler has requested are dropped.
    pub fn defer(&self, until: Timestamp) {
        self.wanted().later = Some(until);
    }

    /// Defers the stream as [`ReactionCtx::defer`] does, for a duration from now.
    pub fn defer_for(&self, time: Duration) {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.defer(self.0.now.plus_ms(ms));
    }
}

fn payload(data: &impl Serialize) -> Result<Payload> {
    let bad = |error: String| StepError::coded("BadOutput", error).fatal();
    let text = serde_json::to_vec(data).map_err(|error| bad(error.to_string()))?;
    Payload::parse(&text, MAX_EVENT_BYTES).map_err(|error| bad(error.to_string()))
}
