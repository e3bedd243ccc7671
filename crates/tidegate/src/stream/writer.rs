//! Stream writers: the actions of one process on a stream are queued, so that they do not conflict.
//!
//! Actions are decided one after another, each on the state that the previous ones will have
//! produced. Their events join the next batch, which is one commit. While a batch is being
//! committed, the next batch fills. If a batch is not committed, the state on which the later
//! actions were decided never existed: their batches are void, and all of these actions are decided
//! again.
//!
//! The most recently used writers are cached with their states, so that the next action needs no
//! load. Its commit shows whether the cached state was still current.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use tidegate_core::{
    command::{Answer, Command, Refusal, StreamAnswer, StreamCommand},
    id::Seq,
    json::Payload,
    stream::{
        self, Commit, Committed, Expected, MAX_COMMIT_BYTES, MAX_COMMIT_EVENTS, NewLogged,
        NewSnapshot, StreamRefusal,
    },
};
use tokio::sync::{Mutex as TurnMutex, watch};

use super::{
    Loaded, State,
    load::{Until, kind, load, stream_row},
    trail::Trail,
    writer_cache::{Key, WriterCache},
};
use crate::{api::unexpected, committer::step_aside, engine::Shared, error::Error, stream::event};

/// Writer of one stream.
pub(super) struct StreamWriter<S> {
    key: Key,
    lines: Weak<WriterCache>,
    /// State after all decided actions. The lock is held by the action that is being decided.
    turn: TurnMutex<Option<Ahead<S>>>,
    queue: Mutex<Queue>,
}

/// State that may include events that are not committed yet.
struct Ahead<S> {
    loaded: Loaded<S>,
    era: u64,
}

#[derive(Default)]
struct Queue {
    /// Incremented whenever a batch is not committed: states of earlier eras are invalid.
    era: u64,
    waiting: VecDeque<Batch>,
    /// Internal number of the stream that the state belongs to, if it is known.
    log: Option<Seq>,
    /// Receives the outcome of the last batch in the queue.
    last: Option<Told>,
    /// Whether the task that commits batches is running.
    sending: bool,
}

/// Events that are committed together.
struct Batch {
    /// Version of the stream before the first event.
    base: i64,
    events: Vec<NewLogged>,
    bytes: usize,
    /// Version and state for a snapshot to store after this batch, if one is needed.
    snapshot: Option<(i64, Payload)>,
    tell: watch::Sender<Option<Outcome>>,
}

/// Outcome of a batch.
type Outcome = Result<Arc<Committed>, Lost>;

/// Receiver of a batch's outcome.
pub(super) type Told = watch::Receiver<Option<Outcome>>;

/// Reason why a batch was not committed.
#[derive(Clone, Debug)]
pub(super) enum Lost {
    /// Another process committed to the stream first.
    Conflict(StreamRefusal),
    /// Another error. Deciding the actions again would not help.
    Failed(Error),
    /// An earlier batch was not committed.
    Void,
}

/// Result of an action. It is valid only if the state that it was decided on is committed.
pub(super) enum Verdict<S: State, E> {
    /// The action returned an error.
    Refused(E),
    /// The action returned no events.
    Nothing(Loaded<S>),
    /// The action's events are in a batch, from index `place` on. `kept` says that the action was
    /// decided on a cached state, which may be outdated.
    Joined { after: Loaded<S>, place: usize, events: Vec<NewLogged>, kept: bool },
}

/// A function that reads the state and returns new events, or a refusal.
pub(super) type Action<'a, S, E> = dyn FnMut(&S) -> Result<Vec<<S as State>::Event>, E> + Send + 'a;

impl<S> Drop for StreamWriter<S> {
    fn drop(&mut self) {
        if let Some(lines) = self.lines.upgrade() {
            lines.forget(&self.key);
        }
    }
}

impl<S: State> StreamWriter<S> {
    pub(super) fn new(key: Key, lines: Weak<WriterCache>) -> Self {
        Self { key, lines, turn: TurnMutex::new(None), queue: Mutex::default() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stream(&self) -> &str {
        &self.key.1
    }

    /// Decides an action when its turn comes. The result is valid when the returned batch is
    /// committed, or at once if none is returned.
    pub(super) async fn decide<E>(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        trail: &Trail,
        action: &mut Action<'_, S, E>,
    ) -> Result<(Verdict<S, E>, Option<Told>), Error> {
        let mut turn = self.turn.lock().await;
        loop {
            let (era, last) = self.now();
            let known = turn.as_ref().is_some_and(|ahead| ahead.era == era);
            if !known {
                *turn = Some(Ahead { loaded: self.load(shared, era).await?, era });
            }
            // A cached state with no commit under way may be outdated.
            let doubtful = known && last.is_none();
            let ahead = turn.as_ref().expect("the state was just loaded");
            let verdict = match action(&ahead.loaded.state) {
                Ok(events) if !events.is_empty() => {
                    let logged = self.logged(shared, trail, &events)?;
                    match self.join(shared, &mut turn, &events, logged, doubtful) {
                        Some(joined) => return Ok(joined),
                        None => continue,
                    }
                }
                Ok(_) => Verdict::Nothing(ahead.loaded.clone()),
                Err(refusal) => Verdict::Refused(refusal),
            };
            if doubtful && !self.is_head(shared, ahead.loaded.version).await? {
                *turn = None;
                continue;
            }
            return Ok((verdict, last));
        }
    }

    /// Returns the era, and the receiver of the last batch's outcome if that batch is pending.
    fn now(&self) -> (u64, Option<Told>) {
        let queue = self.queue();
        let open = queue.last.clone().filter(|told| told.borrow().is_none());
        (queue.era, open)
    }

    async fn load(&self, shared: &Shared, era: u64) -> Result<Loaded<S>, Error> {
        let folded = load::<S>(&*shared.store, &self.key.0, self.stream(), Until::Head).await?;
        match folded.closed {
            Some(guard) => {
                let stream = self.stream().to_owned();
                Err(Refusal::from(StreamRefusal::StreamClosed { stream, guard }).into())
            }
            None => {
                let mut queue = self.queue();
                if queue.era == era {
                    queue.log = folded.log;
                }
                Ok(folded.loaded)
            }
        }
    }

    async fn is_head(&self, shared: &Shared, version: i64) -> Result<bool, Error> {
        let stream = stream_row(&*shared.store, &self.key.0, self.stream()).await?;
        let log = self.queue().log;
        Ok(stream.map_or(version == -1, |it| it.head == version && Some(it.id) == log))
    }

    /// Converts an action's events to their stored form, and checks that they can be committed.
    fn logged(
        &self,
        shared: &Shared,
        trail: &Trail,
        events: &[S::Event],
    ) -> Result<Vec<NewLogged>, Error> {
        let meta = trail.meta(&shared.entropy);
        let logged = events.iter().map(|event| {
            let (name, data) = event::name_and_data(event)?;
            Ok(NewLogged { name, data, meta: meta.clone() })
        });
        let events = logged.collect::<Result<Vec<_>, Error>>()?;
        let commit = self.commit(events, Expected::NoStream);
        stream::check(&commit).map_err(Refusal::from)?;
        Ok(commit.events)
    }

    fn commit(&self, events: Vec<NewLogged>, expected: Expected) -> Commit {
        let (ws, stream) = (self.key.0.clone(), self.stream().to_owned());
        Commit { ws, stream, events, expected: Some(expected) }
    }

    /// Adds an action's events to a batch. Returns `None` if the state that it was decided on has
    /// become invalid.
    fn join<E>(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        turn: &mut Option<Ahead<S>>,
        events: &[S::Event],
        logged: Vec<NewLogged>,
        kept: bool,
    ) -> Option<(Verdict<S, E>, Option<Told>)> {
        // The state is taken out first: if `apply` panics, a half-changed state must not stay.
        let Ahead { mut loaded, era } =
            turn.take().expect("the action was just decided on this state");
        let base = loaded.version;
        for event in events {
            loaded.state.apply(event);
        }
        loaded.version +=
            i64::try_from(events.len()).expect("the number of events in a commit is limited");
        let snapshot = snapshot(&loaded, base);

        let mut queue = self.queue();
        if queue.era != era {
            return None;
        }
        let (place, told) = queue.put(base, logged.clone(), snapshot);
        if !std::mem::replace(&mut queue.sending, true) {
            shared.tasks.spawn(send(self.clone(), shared.clone()));
        }
        drop(queue);
        *turn = Some(Ahead { loaded: loaded.clone(), era });
        Some((Verdict::Joined { after: loaded, place, events: logged, kept }, Some(told)))
    }

    /// Voids all waiting batches after a batch was not committed, because they were decided on its
    /// state.
    fn lose(&self, lost: &Lost) {
        let mut queue = self.queue();
        queue.era += 1;
        (queue.last, queue.log) = (None, None);
        for batch in queue.waiting.drain(..) {
            let _ = batch.tell.send(Some(Err(match lost {
                Lost::Conflict(_) => lost.clone(),
                Lost::Failed(_) | Lost::Void => Lost::Void,
            })));
        }
    }
}

impl Queue {
    /// Adds events to the last batch if they fit, otherwise to a new batch.
    fn put(
        &mut self,
        base: i64,
        events: Vec<NewLogged>,
        snapshot: Option<(i64, Payload)>,
    ) -> (usize, Told) {
        let bytes: usize = events.iter().map(stream::size).sum();
        if let Some(batch) = self.waiting.back_mut().filter(|it| it.takes(base, &events, bytes)) {
            let place = batch.events.len();
            batch.events.extend(events);
            batch.bytes += bytes;
            batch.snapshot = snapshot.or(batch.snapshot.take());
            return (place, batch.tell.subscribe());
        }
        let (tell, told) = watch::channel(None);
        self.waiting.push_back(Batch { base, events, bytes, snapshot, tell });
        self.last = Some(told.clone());
        (0, told)
    }
}

impl Batch {
    fn takes(&self, base: i64, events: &[NewLogged], bytes: usize) -> bool {
        let follows = i64::try_from(self.events.len()).is_ok_and(|count| self.base + count == base);
        let fits = self.events.len() + events.len() <= MAX_COMMIT_EVENTS;
        follows && fits && self.bytes + bytes <= MAX_COMMIT_BYTES
    }
}

/// Returns the snapshot to store, if the events after `base` have crossed a multiple of
/// `SNAPSHOT_EVERY`.
fn snapshot<S: State>(loaded: &Loaded<S>, base: i64) -> Option<(i64, Payload)> {
    let every = i64::from(S::SNAPSHOT_EVERY.filter(|every| *every > 0)?);
    if (loaded.version + 1) / every == (base + 1) / every {
        return None;
    }
    let text = serde_json::to_vec(&loaded.state).ok()?;
    match Payload::parse(&text, stream::MAX_SNAPSHOT_BYTES) {
        Ok(body) => Some((loaded.version, body)),
        Err(error) => {
            tracing::debug!(%error, "snapshot of a stream is not stored: it cannot be a payload");
            None
        }
    }
}

/// Commits one batch after another until none waits. This is a separate task, because a caller may
/// stop waiting for its answer.
async fn send<S: State>(line: Arc<StreamWriter<S>>, shared: Arc<Shared>) {
    let mut sending = Sending { line, done: false };
    let line = sending.line.clone();
    loop {
        let (batch, log) = {
            let mut queue = line.queue();
            match queue.waiting.pop_front() {
                Some(batch) => (batch, queue.log),
                None => {
                    (queue.sending, queue.last, sending.done) = (false, None, true);
                    return;
                }
            }
        };
        let Batch { base, events, snapshot, tell, .. } = batch;
        let commit = line.commit(events, Expected::seen(log, base));
        let (ws, command) = (line.key.0.clone(), StreamCommand::Commit(commit));
        let outcome = match shared.ask(Command::Stream { ws, command }).await {
            Ok(Answer::Stream(StreamAnswer::Committed(committed))) => Ok(Arc::new(committed)),
            Ok(other) => Err(Lost::Failed(unexpected(&other))),
            Err(Error::Refused(Refusal::Stream(StreamRefusal::Conflict {
                stream,
                actual,
                ..
            }))) => {
                let expected = Expected::after(base);
                Err(Lost::Conflict(StreamRefusal::Conflict { stream, expected, actual }))
            }
            Err(error) => Err(Lost::Failed(error)),
        };
        match &outcome {
            Ok(committed) => {
                line.queue().log = Some(committed.log);
                line.keep(&shared, committed, snapshot);
            }
            Err(lost) => line.lose(lost),
        }
        let _ = tell.send(Some(outcome));
        line.gather().await;
    }
}

impl<S: State> StreamWriter<S> {
    /// Lets the callers that were just notified send their next actions first. Otherwise the
    /// callers split into two groups that share no commit.
    async fn gather(&self) {
        let mut before = None;
        loop {
            step_aside().await;
            let waiting = self.queue().waiting.back().map_or(0, |batch| batch.events.len());
            if waiting == 0 || before.replace(waiting) == Some(waiting) {
                return;
            }
        }
    }

    /// Sends the snapshot of a committed state. No caller waits for it: a lost snapshot has no
    /// effect on results.
    fn keep(&self, shared: &Shared, committed: &Committed, snapshot: Option<(i64, Payload)>) {
        let Some((version, body)) = snapshot else { return };
        let (stream, log, kind) = (self.stream().to_owned(), committed.log, kind::<S>());
        let new = NewSnapshot { stream, log, kind, version, body };
        let (ws, command) = (self.key.0.clone(), StreamCommand::Snapshot(new));
        drop(shared.ask(Command::Stream { ws, command }));
    }
}

/// Guard of the task that commits batches: if the task is stopped, waiting callers get an error.
struct Sending<S: State> {
    line: Arc<StreamWriter<S>>,
    done: bool,
}

impl<S: State> Drop for Sending<S> {
    fn drop(&mut self) {
        if !self.done {
            let mut queue = self.line.queue();
            (queue.sending, queue.last) = (false, None);
            queue.era += 1;
            queue.waiting.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::testing::TestHarness;

    #[derive(Clone, Debug, Default, Serialize, Deserialize)]
    struct Count(u32);

    #[derive(Clone, Debug, Serialize, Deserialize)]
    enum Counted {
        One,
        Bad,
    }

    impl State for Count {
        type Event = Counted;

        fn apply(&mut self, event: &Counted) {
            match event {
                Counted::One => self.0 += 1,
                Counted::Bad => panic!("apply was called with the event Bad"),
            }
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "an action may refuse")]
    fn one(_: &Count) -> Result<Vec<Counted>, Infallible> {
        Ok(vec![Counted::One])
    }

    #[tokio::test]
    async fn no_line_is_left_when_nobody_waits_and_none_is_kept() {
        let harness = TestHarness::new();
        let engine = harness.engine().stream_state_cache(0).start().await.unwrap();
        let lines = engine.shared().lines.clone();
        let (a, b) = (engine.stream::<Count>("a"), engine.stream::<Count>("b"));
        let (first, second, third) = tokio::join!(a.act(one), a.act(one), b.act(one));
        assert_eq!(first.unwrap().version + second.unwrap().version, 1);
        assert_eq!(third.unwrap().version, 0);
        let dropped = Box::pin(a.act(one));
        drop(dropped);
        harness.settle().await;
        assert_eq!(lines.len(), 0);
    }

    #[tokio::test]
    async fn the_states_used_last_are_kept_and_no_more() {
        let harness = TestHarness::new();
        let engine = harness.engine().stream_state_cache(2).start().await.unwrap();
        let other = harness.engine().start().await.unwrap();
        for name in ["a", "b", "a", "c"] {
            engine.stream::<Count>(name).act(one).await.unwrap();
        }
        harness.settle().await;
        assert_eq!(engine.shared().lines.len(), 2);
        for (name, attempts) in [("b", 1), ("c", 2)] {
            let before = other.stream::<Count>(name).act(one).await.unwrap();
            // The cached state is outdated. The action finds that out, and this does not count as a
            // retry.
            let acted = engine.stream::<Count>(name).retries(0).act(one).await.unwrap();
            assert_eq!((acted.state.0, acted.version), (before.state.0 + 1, before.version + 1));
            assert_eq!(acted.attempts, attempts, "wrong number of attempts on stream `{name}`");
        }
    }

    #[tokio::test]
    async fn an_action_that_panics_harms_nobody_else() {
        let harness = TestHarness::new();
        let engine = harness.engine().start().await.unwrap();
        let count = engine.stream::<Count>("a");
        count.act(one).await.unwrap();
        let panicking = count.clone();
        let panics = tokio::spawn(async move {
            panicking.act(|_| -> Result<Vec<Counted>, Infallible> { panic!("as planned") }).await
        });
        let half = count.clone();
        let halves = tokio::spawn(async move {
            half.act(|_| Ok::<_, Infallible>(vec![Counted::One, Counted::Bad])).await
        });
        let (acted, panics, halves) = tokio::join!(count.act(one), panics, halves);
        assert!(panics.unwrap_err().is_panic() && halves.unwrap_err().is_panic());
        assert_eq!(acted.unwrap().state.0, 2);
        assert_eq!(count.act(one).await.unwrap().state.0, 3);
        harness.settle().await;
        assert_eq!(engine.shared().lines.len(), 1);
    }

    #[tokio::test]
    async fn a_refusal_is_of_the_stream_as_it_is_now() {
        let harness = TestHarness::new();
        let engine = harness.engine().start().await.unwrap();
        let other = harness.engine().start().await.unwrap();
        let count = engine.stream::<Count>("a");
        count.act(one).await.unwrap();
        other.stream::<Count>("a").act(one).await.unwrap();
        match count.act(|count| Err::<Vec<Counted>, u32>(count.0)).await {
            Err(crate::ActError::Refused(seen)) => assert_eq!(seen, 2),
            other => panic!("the action was not refused: {other:?}"),
        }
        other.stream::<Count>("a").act(one).await.unwrap();
        let nothing = count.act(|_| Ok::<_, u32>(Vec::new())).await.unwrap();
        assert_eq!((nothing.state.0, nothing.version), (3, 2));
    }

    #[tokio::test]
    async fn a_kept_state_is_not_taken_for_that_of_a_stream_which_began_anew() {
        let harness = TestHarness::new();
        let engine = harness.engine().start().await.unwrap();
        let other = harness.engine().start().await.unwrap();
        let count = engine.stream::<Count>("a");
        count.act(one).await.unwrap();
        let closing = crate::Closing::new("a").expecting(Expected::Version(0));
        let closed = other.close(&closing.restart(serde_json::json!(41))).await.unwrap();
        assert_eq!(closed, crate::CloseProgress::Restarted);
        // The restarted stream is at version 0, too, like the cached state.
        match count.act(|count| Err::<Vec<Counted>, u32>(count.0)).await {
            Err(crate::ActError::Refused(seen)) => assert_eq!(seen, 41),
            other => panic!("the action was not refused: {other:?}"),
        }
        let other = other.stream::<Count>("a");
        other.act(one).await.unwrap();
        let closing = crate::Closing::new("a").expecting(Expected::Version(1));
        let closed = engine.close(&closing.restart(serde_json::json!(7))).await.unwrap();
        assert_eq!(closed, crate::CloseProgress::Restarted);
        count.act(one).await.unwrap();
        // This restarted stream reaches the same version as the cached state.
        assert_eq!(other.act(one).await.unwrap().state.0, 9);
    }

    #[tokio::test]
    async fn a_killed_engine_tells_whoever_waits() {
        let harness = TestHarness::new();
        let engine = harness.engine().stream_state_cache(0).start().await.unwrap();
        let count = engine.stream::<Count>("a");
        harness.crash(&engine).await;
        let error = count.act(one).await.unwrap_err();
        assert_eq!(error.to_string(), "the engine has been shut down");
        assert_eq!(engine.shared().lines.len(), 0);
    }
}
