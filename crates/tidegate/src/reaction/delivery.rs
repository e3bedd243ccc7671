//! One turn of one stream: loads a batch of its events, handles them in order, and acks them with
//! their effects.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, PoisonError},
    task::Poll,
    time::Duration,
};

use tidegate_core::{
    command::{Answer, Refusal, StreamAnswer, StreamCommand},
    reaction::{Effect, Failed, Failure, Leased, Outcome, React, Reacted, ReactionRefusal, Then},
    reads::{ReadSet, Scan},
    row::Row,
    stream::GUARD,
    time::Timestamp,
};
use tidegate_store::StoreError;

use super::{
    Code, Each, ServedReaction,
    context::ReactionCtx,
    lease::{Halt, Keeper, pause},
    runner::Turn,
    trigger,
};
use crate::{
    error::Error,
    step_error::{Result, RetryDecision, StepError},
    stream::StreamEvent,
    telemetry,
};

/// Time for which handled events are collected before one transaction acks them. If a handler takes
/// longer than this, each event is acked by itself, so that little is repeated after a crash.
const GATHER: Duration = Duration::from_millis(50);

/// Maximum number of effects in one transaction. A single event may have more.
const MOST_EFFECTS: usize = 256;

/// Result of handling an event.
enum Handled {
    Done(Vec<Effect>),
    Failed(StepError),
    Later(Timestamp),
}

/// Events of a turn that are handled but not acked yet.
#[derive(Default)]
struct Pending {
    /// Version of the last of these events.
    upto: Option<i64>,
    /// Effects by event version, of the events that have effects.
    effects: Vec<(i64, Vec<Effect>)>,
    count: usize,
    /// Time at which the handling of the first of these events began.
    since: Option<Duration>,
}

/// Processing of a claimed stream.
pub(super) struct Delivery {
    pub(super) keeper: Keeper,
    pub(super) served: Arc<ServedReaction>,
    pub(super) leased: Leased,
    /// Version of the last acked event.
    pub(super) at: i64,
    pending: Pending,
    place: Turn,
}

impl Delivery {
    pub(super) fn new(
        keeper: Keeper,
        served: Arc<ServedReaction>,
        leased: Leased,
        place: Turn,
    ) -> Self {
        let at = leased.at;
        Self { keeper, served, leased, at, pending: Pending::default(), place }
    }

    /// Handles one batch of events, and releases the stream.
    pub(super) async fn run(mut self) {
        let halt = match self.turn().await {
            Ok(()) => return,
            Err(halt) => halt,
        };
        if halt == Halt::ShutDown {
            self.give_back().await;
        }
    }

    async fn turn(&mut self) -> Result<(), Halt> {
        let events = self.load().await?;
        if events.is_empty() {
            let stream = &self.leased.lease.stream;
            tracing::error!(
                stream,
                after = self.at,
                "stream has no events although its reaction has work"
            );
            return self.put_off(self.keeper.shared.clock.now().plus_ms(60_000)).await;
        }
        match self.served.code.clone() {
            Code::Fold(folds) => Box::pin(self.fold(&folds, events)).await,
            Code::Each(handler) => self.each(Some(&handler), events).await,
            Code::Triggers | Code::None => self.each(None, events).await,
        }
    }

    /// Loads the next batch of events.
    async fn load(&mut self) -> Result<Vec<StreamEvent>, Halt> {
        let scan = Scan::Log(self.leased.log, self.at + 1);
        let reads = ReadSet::default().scan(scan.clone(), self.served.definition.batch);
        let (shared, want) = (self.keeper.shared.clone(), self.leased.want);
        let read = async {
            loop {
                match shared.store.read(reads.clone()).await {
                    Ok(snapshot) => return snapshot,
                    Err(error) => {
                        tracing::warn!(%error, "reading a stream failed, retrying");
                        pause(&shared).await;
                    }
                }
            }
        };
        let snapshot = self.keeper.during(read).await?;
        let stream = &self.leased.lease.stream;
        let events = snapshot.found(&scan).into_iter().filter_map(|row| match row {
            Row::StreamEventRow(event) if event.version <= want => {
                Some(StreamEvent::logged(stream, event.clone()))
            }
            _ => None,
        });
        Ok(events.collect())
    }

    /// Handles one event after another.
    async fn each(&mut self, handler: Option<&Each>, events: Vec<StreamEvent>) -> Result<(), Halt> {
        for event in events {
            let (version, begun) = (event.version, self.keeper.shared.timer.elapsed());
            telemetry::reaction_handled(&self.served.definition.name, self.lag(&event));
            let outcome = match handler {
                None => Handled::Done(trigger::effects(&event)),
                Some(_) if event.name == GUARD => Handled::Done(Vec::new()),
                Some(handler) => self.handle(handler, event).await?,
            };
            match outcome {
                Handled::Done(effects) => {
                    self.keep(version, effects, begun);
                    if self.is_full() && !self.flush(Then::Keep).await? {
                        return Ok(());
                    }
                }
                Handled::Failed(fault) => return self.fail(&fault).await,
                Handled::Later(until) => return self.put_off(until).await,
            }
        }
        self.place.handled();
        self.flush(Then::Free).await.map(drop)
    }

    /// Calls the handler with one event. A panic counts as a failure.
    async fn handle(&mut self, handler: &Each, event: StreamEvent) -> Result<Handled, Halt> {
        let name = &self.served.definition.name;
        let now = self.keeper.shared.clock.now();
        let ctx = ReactionCtx::new(name, event.clone(), now, self.keeper.shared.clone());
        let (called, handler) = (ctx.clone(), handler.clone());
        let mut future = Box::pin(async move { handler(called, event).await });
        let caught = std::future::poll_fn(move |cx| {
            let polled = std::panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
            polled.unwrap_or_else(|payload| Poll::Ready(Err(StepError::panicked(payload.as_ref()))))
        });
        let result = self.keeper.during(caught).await?;
        let wanted = ctx.take();
        Ok(match (wanted.later, result) {
            (Some(until), Ok(())) => Handled::Later(until),
            (None, Ok(())) => Handled::Done(self.keyed(wanted.effects)),
            (_, Err(fault)) => Handled::Failed(fault),
        })
    }

    /// Adds the keys that the program's key functions compute to calls of actions.
    fn keyed(&self, mut effects: Vec<Effect>) -> Vec<Effect> {
        for effect in &mut effects {
            if let Effect::Call(request) = effect {
                let action = format!("{}/{}", request.flow, request.action);
                let registry = self.keeper.shared.registry.lock();
                let function = registry
                    .unwrap_or_else(PoisonError::into_inner)
                    .key_function(&request.app, &action);
                request.function_key = function.map(|function| function(request));
            }
        }
        effects
    }

    fn keep(&mut self, version: i64, effects: Vec<Effect>, begun: Duration) {
        let pending = &mut self.pending;
        pending.upto = Some(version);
        if !effects.is_empty() {
            pending.count += effects.len();
            pending.effects.push((version, effects));
        }
        pending.since.get_or_insert(begun);
    }

    /// Returns whether the handled events must be acked before the next event is handled.
    fn is_full(&self) -> bool {
        let elapsed = self.keeper.shared.timer.elapsed();
        let late = self.pending.since.is_some_and(|since| elapsed.saturating_sub(since) >= GATHER);
        late || self.pending.count >= MOST_EFFECTS
    }

    /// Acks the handled events together with their effects. Returns `false` if an effect was
    /// refused: that counts as a failure of its event, and ends the turn.
    async fn flush(&mut self, then: Then) -> Result<bool, Halt> {
        let Pending { upto, effects, .. } = std::mem::take(&mut self.pending);
        let upto = upto.unwrap_or(self.at);
        let all = effects.iter().flat_map(|(_, effects)| effects.clone()).collect();
        let Err(refused) = self.react(upto, all, then).await? else { return Ok(true) };
        // An effect was refused. Acking the events one by one shows to which event it belongs.
        let several = effects.len() > 1;
        let mut refused = Some(refused).filter(|_| !several);
        for (version, effects) in effects {
            if self.at < version - 1 {
                self.react(version - 1, Vec::new(), Then::Keep).await?.ok();
            }
            if several {
                refused = self.react(version, effects, Then::Keep).await?.err();
            }
            if let Some(error) = refused.take() {
                let fault = StepError::coded("NotKept", format!("an effect was refused: {error}"));
                self.fail(&fault).await?;
                return Ok(false);
            }
        }
        self.react(upto, Vec::new(), then).await.map(|done| done.is_ok())
    }

    /// Sends one ack with effects. Returns the error if it was refused.
    async fn react(
        &mut self,
        upto: i64,
        effects: Vec<Effect>,
        then: Then,
    ) -> Result<Result<(), Error>, Halt> {
        let asked = self.keeper.shared.timer.elapsed();
        let react = self.done_upto(upto, effects, then);
        match self.keeper.insist(StreamCommand::React(react)).await {
            Ok(Answer::Stream(StreamAnswer::Reacted(reacted))) => {
                self.reacted(&reacted, asked);
                Ok(Ok(()))
            }
            Err(Error::Refused(Refusal::Reaction(ReactionRefusal::Lost { .. }))) => {
                Err(self.keeper.lost())
            }
            Err(error @ Error::Refused(_)) => Ok(Err(error)),
            Err(Error::Store(error)) if matches!(*error, StoreError::Data(_)) => {
                Ok(Err(Error::Store(error)))
            }
            Ok(_) | Err(_) => Err(self.keeper.lost()),
        }
    }

    pub(super) fn done_upto(&self, upto: i64, effects: Vec<Effect>, then: Then) -> React {
        React { lease: self.leased.lease.clone(), from: self.at, upto, effects, then }
    }

    pub(super) fn reacted(&mut self, reacted: &Reacted, asked: Duration) {
        let lease = &self.leased.lease;
        let (reaction, stream, at) = (&lease.reaction, &lease.stream, reacted.at);
        tracing::trace!(reaction, stream, at, "acked");
        self.at = reacted.at;
        if reacted.until.is_some() {
            self.keeper.renewed(asked);
        }
    }

    /// Reports that the event after the handled ones has failed.
    pub(super) async fn fail(&mut self, fault: &StepError) -> Result<(), Halt> {
        if !self.pending.effects.is_empty() && !Box::pin(self.flush(Then::Keep)).await? {
            return Ok(());
        }
        let done_upto = self.pending.upto.take().unwrap_or(self.at);
        let wait_ms = match fault.again() {
            RetryDecision::After(wait) => Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            RetryDecision::Retry | RetryDecision::Never => None,
        };
        let failure = Failure {
            done_upto,
            error: format!("{fault:?}"),
            retryable: !fault.is_fatal(),
            chance: u32::try_from(self.keeper.shared.entropy.number() >> 32).unwrap_or_default(),
            wait_ms,
        };
        let lease = self.leased.lease.clone();
        telemetry::reaction_failed(&lease.reaction);
        let fail = StreamCommand::Fail { lease, failure };
        let (reaction, stream) = (&self.leased.lease.reaction, &self.leased.lease.stream);
        match self.keeper.insist(fail).await {
            Ok(Answer::Stream(StreamAnswer::Failed(Outcome::Done(failed)))) => {
                match failed {
                    Failed::Retry { failures, .. } => {
                        tracing::debug!(reaction, stream, failures, %fault, "handler failed");
                    }
                    Failed::Blocked { at, reason } => {
                        tracing::trace!(reaction, stream, at, reason, "blocked");
                        telemetry::reaction_blocked(reaction);
                    }
                }
                Ok(())
            }
            Ok(_) | Err(_) => Err(self.keeper.lost()),
        }
    }

    /// Ends the turn, and defers the event after the handled ones to `until`.
    async fn put_off(&mut self, until: Timestamp) -> Result<(), Halt> {
        if !self.pending.effects.is_empty() && !self.flush(Then::Keep).await? {
            return Ok(());
        }
        let done_upto = self.pending.upto.take().unwrap_or(self.at);
        let lease = self.leased.lease.clone();
        match self.keeper.insist(StreamCommand::Defer { lease, done_upto, until }).await {
            Ok(Answer::Stream(StreamAnswer::At(at))) if matches!(at[..], [Outcome::Done(_)]) => {
                Ok(())
            }
            Ok(_) | Err(_) => Err(self.keeper.lost()),
        }
    }

    /// Releases the lease at once and acks the handled events. This does not count as a failure.
    async fn give_back(&mut self) {
        // A time in the past, so that the stream can be claimed again at once.
        let _lost = self.put_off(Timestamp::default()).await;
    }

    /// Returns the time since an event was committed.
    fn lag(&self, event: &StreamEvent) -> Duration {
        let now = self.keeper.shared.clock.now();
        let micros = now.micros().saturating_sub(event.at.micros()).max(0);
        Duration::from_micros(micros.unsigned_abs())
    }
}
