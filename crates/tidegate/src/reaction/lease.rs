//! Lease on a stream: renewed while the stream's events are handled, and given up before it ends.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use tidegate_core::{
    command::{Answer, Command, StreamAnswer, StreamCommand},
    reaction::{Lease, Outcome},
};
use tidegate_store::StoreError;
use tokio::sync::watch;

use crate::{committer::Reply, engine::Shared, error::Error, telemetry};

/// Reason for stopping the work on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// Another engine holds the stream, or may hold it: report nothing more about it.
    Lost,
    /// The engine shuts down: release the stream.
    ShutDown,
}

/// First and maximum delay between the attempts of a command that the store did not answer.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Pause of a reaction after the store has failed.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) async fn pause(shared: &Shared) {
    shared.timer.sleep_until(shared.timer.elapsed() + PAUSE).await;
}

/// Holder of one lease: renews it, and stops the work when it is lost.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) shared: Arc<Shared>,
    pub(super) lease: Lease,
    time: Duration,
    /// Time, by this engine's monotonic clock, at which the last successful claim or renewal was
    /// sent.
    held: Duration,
    stop: watch::Receiver<bool>,
}

impl Keeper {
    pub(super) fn new(
        shared: Arc<Shared>,
        lease: Lease,
        lease_ms: u64,
        held: Duration,
        stop: watch::Receiver<bool>,
    ) -> Self {
        Self { shared, lease, time: Duration::from_millis(lease_ms), held, stop }
    }

    /// Records that a command sent at this time has renewed the lease.
    pub(super) fn renewed(&mut self, asked: Duration) {
        self.held = self.held.max(asked);
    }

    /// Returns the end of the lease. After it, this engine must no longer act under the lease.
    fn end(&self) -> Duration {
        self.held + self.time
    }

    /// Runs a future, and renews the lease meanwhile. Drops the future when the lease is lost or
    /// the engine shuts down.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Halt> {
        let mut work = pin!(work);
        let mut stop = self.stop.clone();
        let mut stopped = pin!(async move { stop.wait_for(|stop| *stop).await.is_ok() });
        let timer = self.shared.timer.clone();
        let mut renewal: Option<(Reply, Duration)> = None;
        let mut next = self.held + self.time / 3;
        loop {
            let wake = if renewal.is_some() { self.end() } else { next.min(self.end()) };
            let answer = async {
                match &mut renewal {
                    Some((reply, _)) => reply.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = stopped.as_mut() => return Err(Halt::ShutDown),
                done = work.as_mut() => return Ok(done),
                answer = answer => {
                    let asked = renewal.take().map_or(self.held, |(_, asked)| asked);
                    next = match answer {
                        Ok(Answer::Stream(StreamAnswer::Renewed(told)))
                            if matches!(told[..], [Outcome::Done(_)]) => {
                            self.renewed(asked);
                            self.held + self.time / 3
                        }
                        Ok(_) => return Err(self.lost()),
                        Err(error) => {
                            tracing::warn!(%error, "stream lease renewal failed");
                            timer.elapsed() + self.time / 30
                        }
                    };
                }
                () = timer.sleep_until(wake) => {
                    if timer.elapsed() >= self.end() {
                        return Err(self.lost());
                    }
                    let (reaction, leases) = (self.lease.reaction.clone(), vec![self.lease.clone()]);
                    let renew = StreamCommand::Renew { reaction, leases };
                    renewal = Some((self.send(renew), timer.elapsed()));
                }
            }
        }
    }

    fn send(&self, command: StreamCommand) -> Reply {
        self.shared.ask(Command::Stream { ws: self.lease.ws.clone(), command })
    }

    /// Repeats a command until the store answers, but only as long as the lease lasts.
    pub(super) async fn insist(&self, command: StreamCommand) -> Result<Answer, Error> {
        let command = Command::Stream { ws: self.lease.ws.clone(), command };
        let salted = (command, self.shared.entropy.number());
        let (timer, mut pause) = (&*self.shared.timer, FIRST_PAUSE);
        loop {
            match self.shared.committer.send(salted.clone(), None).await {
                Err(Error::Store(error))
                    if !matches!(*error, StoreError::Data(_)) && timer.elapsed() < self.end() =>
                {
                    tracing::warn!(%error, "report of a reaction failed, retrying");
                    timer.sleep_until(timer.elapsed() + pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                answer => return answer,
            }
        }
    }

    /// Handles the loss of the lease: all events after the last ack will be delivered again.
    pub(super) fn lost(&self) -> Halt {
        let Lease { reaction, stream, .. } = &self.lease;
        tracing::warn!(
            reaction,
            stream,
            "lease of a stream lost, events without an ack will be delivered again"
        );
        telemetry::reaction_lost(reaction);
        Halt::Lost
    }
}
