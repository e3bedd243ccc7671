//! Driver of one run: from its lease to the report that releases it.
//!
//! Only this driver polls the run's handler. Operations are reported as they complete; when the
//! handler can only wait, the run is released and the handler dropped.

mod poll;

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use tidegate_core::{
    command::{Answer, Command, Refusal},
    json::Payload,
    row::{Begun, EngineId, Purpose, Run},
    run::record::{Record, Recorded, Then},
};
use tidegate_store::StoreError;
use tokio::sync::watch;

pub(crate) use self::poll::{Patience, Polled, Reached};
use crate::{
    context::{Activation, Ctx, Next, Ops, State, undo_all},
    engine::Shared,
    error::Error,
    load::Loaded,
    registry::ServedVersion,
    step_error::{Result, StepError},
    timer::BoxFuture,
    turns::WorkerKind,
};

/// Reason for stopping a run from outside of its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// The run was cancelled or replaced: stop, and confirm that the run is no longer driven.
    Cancelled,
    /// The lease may have ended, and another engine may drive the run: stop, and report nothing.
    Lost,
    /// The engine shuts down: hand the run over.
    Yield,
}

/// First and maximum delay between the attempts of a report.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Next event that the driver handles.
enum Turn {
    Stopped(StopReason),
    Reported(std::result::Result<Answer, Error>),
    Reached(Reached),
}

/// A run that is being driven.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    ctx: Ctx,
    handler: Polled,
    /// Whether the handler has given its [`Ctx`] to spawned tasks.
    spawns: Arc<AtomicBool>,
    stop: watch::Receiver<Option<StopReason>>,
    engine: EngineId,
    kind: WorkerKind,
    /// Whether the handler may be polled. If an engine died while it drove this run, the handler
    /// waits until its start is recorded.
    begun: bool,
}

/// Replays the handler on the records of the run to compensate, until all compensations are
/// registered again, and executes them.
fn undo(mut handler: Polled, past: Ctx, ctx: Ctx) -> BoxFuture<Result<Payload>> {
    Box::pin(async move {
        let registered = std::future::poll_fn(|cx| {
            let reached = handler.poll(&past, cx);
            let mut state = past.activation_state();
            if let Some(undo) = state.collected() {
                return Poll::Ready(Ok(undo));
            }
            match reached {
                Poll::Ready(Reached::Next(Next::Stop(fault) | Next::Changed(fault))) => {
                    Poll::Ready(Err(Some(fault)))
                }
                Poll::Ready(_) => Poll::Ready(Err(state.broken().or_else(|| state.lost()))),
                Poll::Pending => Poll::Pending,
            }
        })
        .await;
        drop(handler);
        match registered {
            Ok(registered) => undo_all(ctx, registered).await,
            Err(broken) => {
                let lost = "the code does not register all compensations that are on record";
                Err(broken.unwrap_or_else(|| StepError::coded("ChangedWorkflow", lost).fatal()))
            }
        }
    })
}

impl Driver {
    pub(crate) fn new(
        shared: Arc<Shared>,
        version: &ServedVersion,
        run: Run,
        loaded: Loaded,
        (stop, kind): (watch::Receiver<Option<StopReason>>, WorkerKind),
    ) -> Self {
        let (engine, purpose) = (run.owner.unwrap_or_default(), run.purpose);
        let begun = run.begun == Begun::Untracked;
        let Loaded { events, mut steps, undoes } = loaded;
        // An answer that arrived after the lease and before the load belongs to the next
        // activation, because the order of records says so.
        steps.retain(|step| step.kind.is_effect() || step.fence < run.fence);
        let definition = version.definition.clone();
        let activation = Activation { run, events, definition };
        let past = undoes.map(|(ended, steps)| {
            let (id, purpose, effect_run) = (ended.id, ended.purpose, ended.effect_run);
            let (waits, failures) = Default::default();
            let run = activation.run.clone();
            let run = Run { id, purpose, effect_run, waits, failures, ..run };
            (Activation { run, ..activation.clone() }, steps)
        });
        let state = State::new(&activation.run, steps);
        let ctx = Ctx::new(activation, state, shared.clone(), stop.clone());
        let code = |purpose: Purpose| match (purpose, &version.on_failure) {
            (Purpose::OnFailure(_), Some(handler)) => handler,
            _ => &version.handler,
        };
        let handler = match past {
            Some((past, steps)) => {
                let (handler, state) = (code(past.run.purpose), State::past(&past.run, steps));
                let past = Ctx::new(past, state, shared.clone(), stop.clone());
                let patience = Patience::new(shared.timer.clone(), true);
                undo(Polled::new(handler.call(past.clone()), patience), past, ctx.clone())
            }
            None => code(purpose).call(ctx.clone()),
        };
        let spawns = version.spawns.clone();
        let patience = Patience::new(shared.timer.clone(), spawns.load(Ordering::SeqCst));
        let handler = Polled::new(handler, patience);
        Self { shared, ctx, handler, spawns, stop, engine, kind, begun }
    }

    fn run(&self) -> &Run {
        &self.ctx.activation().run
    }

    /// Drives the run until it is released. Returns `true` if a report released the run and freed
    /// its worker.
    pub(crate) async fn drive(mut self) -> bool {
        let mut report = (!self.begun).then(|| self.report(Ops::default(), Then::Continue));
        loop {
            let turn = self.turn(&mut report).await;
            match turn {
                Turn::Stopped(stop) => return self.stopped(stop, report).await,
                Turn::Reported(answer) => {
                    report = None;
                    match answer {
                        Ok(Answer::Recorded(Recorded::GoOn)) if self.begun => {
                            self.ctx.activation_state().reported();
                        }
                        Ok(Answer::Recorded(Recorded::GoOn)) => self.begun = true,
                        Ok(Answer::Recorded(Recorded::Asked(answers))) => {
                            let mut state = self.ctx.activation_state();
                            state.answered(answers);
                            state.reported();
                        }
                        Ok(Answer::Recorded(Recorded::LetGo)) => return false,
                        answer => return self.refused(answer).await,
                    }
                }
                Turn::Reached(Reached::Next(Next::Report)) => {
                    let ops = self.ctx.activation_state().take_on();
                    report = Some(self.report(ops, Then::Continue));
                }
                Turn::Reached(Reached::Next(Next::Suspend(waits))) => {
                    return self.finish(Then::Suspend(waits)).await;
                }
                Turn::Reached(Reached::Next(Next::Stop(fault))) => {
                    return self.finish(Then::Fail(fault.to_row())).await;
                }
                Turn::Reached(Reached::Next(Next::Changed(fault))) => {
                    let then = self.changed(&fault);
                    return self.finish(then).await;
                }
                Turn::Reached(Reached::Next(_)) => {}
                Turn::Reached(Reached::End(result)) => {
                    // There is one report at a time. The last report also records the end.
                    if let Some(report) = report.take() {
                        match report.await {
                            Ok(Answer::Recorded(Recorded::GoOn | Recorded::Asked(_))) => {}
                            Ok(Answer::Recorded(Recorded::LetGo)) => return false,
                            answer => return self.refused(answer).await,
                        }
                    }
                    let then = self.ending(result);
                    return self.finish(then).await;
                }
            }
        }
    }

    /// Waits until the run is stopped, a report is answered, or the handler reaches a point where
    /// the driver has to act.
    async fn turn(
        &mut self,
        report: &mut Option<BoxFuture<std::result::Result<Answer, Error>>>,
    ) -> Turn {
        let Self { ctx, handler, stop, begun, .. } = self;
        let stopped = async {
            match stop.wait_for(Option::is_some).await {
                Ok(stop) => stop.unwrap_or(StopReason::Lost),
                Err(_) => StopReason::Lost,
            }
        };
        let next = std::future::poll_fn(|cx| {
            if let Some(report) = report
                && let Poll::Ready(answer) = report.as_mut().poll(cx)
            {
                return Poll::Ready(Turn::Reported(answer));
            }
            if !*begun {
                return Poll::Pending;
            }
            let polled = std::panic::catch_unwind(AssertUnwindSafe(|| handler.poll(ctx, cx)));
            polled.map_or_else(
                |payload| {
                    let fault = StepError::panicked(payload.as_ref());
                    Poll::Ready(Turn::Reached(Reached::End(Err(fault))))
                },
                |reached| reached.map(Turn::Reached),
            )
        });
        tokio::select! {
            biased;
            stop = stopped => Turn::Stopped(stop),
            turn = next => turn,
        }
    }

    /// Returns how the run continues after its handler has returned. If the handler failed and also
    /// has not requested all records, the failure counts: the next attempt may request them.
    fn ending(&mut self, result: Result<Payload>) -> Then {
        let (broken, lost) = {
            let state = self.ctx.activation_state();
            (state.broken(), state.lost())
        };
        match (broken, result) {
            (Some(broken), _) => Then::Fail(broken.to_row()),
            (None, Ok(output)) => match lost {
                Some(lost) => self.changed(&lost),
                None => Then::Complete(output),
            },
            (None, Err(fault)) => match self.ctx.next_attempt("", None, &fault) {
                Some(wait) => Then::Suspend(vec![wait]),
                None => Then::Fail(fault.to_row()),
            },
        }
    }

    /// Returns how the run continues if its code has not requested every record. A task that the
    /// handler has spawned may still request them: it outlives the handler and holds its [`Ctx`].
    /// In that case the run is replayed once more, and that replay waits for such tasks.
    fn changed(&mut self, fault: &StepError) -> Then {
        self.drop_handler();
        if self.handler.waits_for_tasks() || !self.ctx.is_held_elsewhere() {
            return Then::Fail(fault.to_row());
        }
        self.spawns.store(true, Ordering::SeqCst);
        Then::Yield
    }

    /// Sends the last report and releases the run. Returns `true` if the report freed the worker.
    async fn finish(&mut self, then: Then) -> bool {
        self.drop_handler();
        self.ctx.activation_state().drop_asks();
        let last = loop {
            let (ops, all) = self.ctx.activation_state().take();
            if all {
                break ops;
            }
            match self.report(ops, Then::Continue).await {
                Ok(Answer::Recorded(Recorded::GoOn)) => {}
                Ok(Answer::Recorded(Recorded::LetGo)) => return false,
                answer => return self.refused(answer).await,
            }
        };
        match self.report(last, then).await {
            Ok(Answer::Recorded(Recorded::LetGo)) => true,
            Ok(_) => {
                self.confirm_stop().await;
                true
            }
            answer => self.refused(answer).await,
        }
    }

    /// Handles a report that was not accepted. If another engine drives the run, the run is left to
    /// it. If the store refuses a value of the report, the run fails. Returns `true` if a report
    /// freed the worker.
    async fn refused(&mut self, answer: std::result::Result<Answer, Error>) -> bool {
        self.drop_handler();
        let error = match answer {
            Err(error @ Error::Store(_)) => error,
            Err(Error::Refused(refusal)) if !matches!(refusal, Refusal::Fenced { .. }) => {
                refusal.into()
            }
            _ => {
                self.confirm_stop().await;
                return false;
            }
        };
        let fault = StepError::coded("NotRecorded", format!("the store refused a report: {error}"));
        self.report(Ops::default(), Then::Fail(fault.to_row())).await.is_ok()
    }

    /// Sends a report until the store answers. A repeated report has no further effect.
    fn report(&self, ops: Ops, then: Then) -> BoxFuture<std::result::Result<Answer, Error>> {
        let (shared, known, engine) = (self.shared.clone(), self.run().clone(), self.engine);
        let Ops { steps, sends, session, commits, chunks, progress, .. } = ops;
        let Ops { closes, overloads, over, asks, waits, .. } = ops;
        let (run, fence) = (known.id.seq, known.fence);
        let places = Record {
            over,
            asks,
            waits,
            closes,
            overloads,
            ..Record::new(run, engine, fence, then)
        };
        let report = Record { steps, sends, session, commits, chunks, progress, ..places };
        let command = Command::Record { known: Box::new(known), report };
        let (salted, kind) = ((command, shared.entropy.number()), self.kind);
        Box::pin(async move {
            let mut pause = FIRST_PAUSE;
            loop {
                match shared.committer.send(salted.clone(), Some(kind)).await {
                    Err(Error::Store(error)) if !matches!(*error, StoreError::Data(_)) => {
                        tracing::warn!(%error, "report failed, retrying");
                        shared.timer.sleep_until(shared.timer.elapsed() + pause).await;
                        pause = (pause * 2).min(LONGEST_PAUSE);
                    }
                    answer => return answer,
                }
            }
        })
    }

    /// Stops the run for the given reason. Returns `true` if a report freed the worker.
    async fn stopped(
        mut self,
        stop: StopReason,
        report: Option<BoxFuture<std::result::Result<Answer, Error>>>,
    ) -> bool {
        match stop {
            StopReason::Lost => false,
            StopReason::Cancelled => {
                self.confirm_stop().await;
                false
            }
            StopReason::Yield => {
                self.drop_handler();
                if let Some(report) = report
                    && !matches!(
                        report.await,
                        Ok(Answer::Recorded(Recorded::GoOn | Recorded::Asked(_)))
                    )
                {
                    return false;
                }
                self.finish(Then::Yield).await
            }
        }
    }

    /// Drops the handler: none of its code runs after this.
    fn drop_handler(&mut self) {
        self.handler.stop();
    }

    /// Confirms that the run is no longer driven. This has an effect only if the run was cancelled.
    async fn confirm_stop(&mut self) {
        self.drop_handler();
        let known = Box::new(self.run().clone());
        let salted = (Command::Stopped { known }, self.shared.entropy.number());
        if let Err(error) = self.shared.committer.send(salted, None).await {
            // Without the confirmation, the end of the lease has the same effect later.
            tracing::warn!(%error, run = %self.run().id, "confirming the stop of a run failed");
        }
    }
}
