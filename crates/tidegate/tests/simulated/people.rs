//! People outside of the engines: clients that send the events and requests of the plan, and
//! operators that act on runs.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use serde_json::json;
use tidegate::{Engine, Error, NewEvent, RunId, new_event, new_request};
use tidegate_core::{
    event::Outcome,
    request::Request,
    row::{Ended, Row, Run},
};
use tidegate_store::StoreError;
use tidegate_testkit::{
    sim::{
        task::SIGNAL,
        workload::{Delivery, MESSAGE, Plan},
    },
    workload::Chance,
};
use tokio::task::JoinSet;

use crate::world::World;

/// A planned event or request: its time in microseconds, its workspace and its content.
type Letter = (u64, usize, Delivery);

/// The result of a delivery.
type Answer = (Letter, Result<Vec<Outcome>, Error>);

/// Client that sends the planned events and requests. If an answer is lost, it sends again where
/// that is safe.
#[derive(Debug)]
pub(crate) struct Client {
    left: VecDeque<Letter>,
    underway: JoinSet<Answer>,
}

impl Client {
    pub(crate) fn new(plan: &Plan) -> Self {
        let left = plan.traffic.iter().cloned().map(|(ms, ws, what)| (ms * 1000, ws, what));
        Self { left: left.collect(), underway: JoinSet::new() }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.left.is_empty() && self.underway.is_empty()
    }

    /// Sends the due events and requests through any of these engines, and checks the answers.
    pub(crate) fn turn(&mut self, world: &World, chance: &mut Chance, engines: &[Engine]) {
        while let Some(answer) = self.underway.try_join_next() {
            let ((_, ws, what), answer) = answer.expect("a client does not panic");
            let again = match answer {
                Ok(outcomes) => {
                    promise(world, &outcomes);
                    false
                }
                Err(Error::Store(error)) if matches!(*error, StoreError::Unavailable(_)) => true,
                Err(Error::Store(_) | Error::ShutDown) => is_safe(&what),
                Err(Error::Refused(_)) => false,
                Err(error) => panic!("unexpected error for {what:?}: {error:?}"),
            };
            if again {
                let at = world.now() + chance.between(500, 20_000);
                self.left.push_back((at, ws, what));
            }
        }
        if engines.is_empty() {
            return;
        }
        let now = world.now();
        let (due, left) = self.left.drain(..).partition::<Vec<_>, _>(|(at, ..)| *at <= now);
        self.left = left.into();
        for letter in due {
            let ws = world.plan.workspaces[letter.1];
            let engine = engines[chance.index(engines.len())].in_workspace(ws);
            self.underway.spawn(async move {
                let answer = deliver(&engine, &letter.2).await;
                (letter, answer)
            });
        }
    }
}

fn is_safe(delivery: &Delivery) -> bool {
    matches!(delivery, Delivery::Post(events, _)
        if events.iter().all(|(_, _, dedupe)| dedupe.is_some()))
}

async fn deliver(engine: &Engine, delivery: &Delivery) -> Result<Vec<Outcome>, Error> {
    match delivery {
        Delivery::Post(events, delay) => {
            let events = events.iter().map(|(name, data, dedupe_id)| {
                let event = NewEvent { dedupe_id: dedupe_id.clone(), ..new_event(name, data)? };
                let delayed = |ms| event.clone().delay(Duration::from_millis(ms));
                Ok(delay.map_or_else(|| event.clone(), delayed))
            });
            let posted = engine.send_all(events.collect::<Result<_, Error>>()?).await?;
            Ok(posted.into_iter().flat_map(|posted| posted.runs).collect())
        }
        Delivery::Call { action, session, input, delay } => {
            let mut request = new_request("f", action, input)?;
            request.session.clone_from(session);
            if let Some(ms) = delay {
                request = request.delay(Duration::from_millis(*ms));
            }
            Ok(vec![engine.dispatch(request).await?])
        }
        Delivery::Say { then, session, input } => {
            let call = |action| {
                let request = new_request("f", action, input)?;
                Ok::<_, Error>(Request { session: session.clone(), ..request })
            };
            let (first, then) = engine.dispatch_then(call(MESSAGE)?, call(then)?).await?;
            Ok(std::iter::once(first).chain(then).collect())
        }
        // The engines plan their schedules themselves.
        Delivery::Occur { .. } => Ok(Vec::new()),
    }
}

/// Records the runs that the answer to a client names: these runs must exist later.
fn promise(world: &World, outcomes: &[Outcome]) {
    let mut inner = world.lock();
    for outcome in outcomes {
        inner.judge.promised(&outcome.verdict);
    }
}

/// An operator's action on a run.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Cancel,
    Pause,
    Resume,
    Signal,
    Replay,
    RetryFrom,
}

/// Applies a random action to a random run, without waiting for the result.
pub(crate) fn meddle(world: &Arc<World>, chance: &mut Chance, engine: &Engine) {
    let deed = chance.one(&[
        Deed::Cancel,
        Deed::Cancel,
        Deed::Pause,
        Deed::Resume,
        Deed::Signal,
        Deed::Signal,
        Deed::Replay,
        Deed::RetryFrom,
    ]);
    let again = matches!(deed, Deed::Replay | Deed::RetryFrom);
    let Some((ws, run)) = pick(world, chance, again, matches!(deed, Deed::RetryFrom)) else {
        return;
    };
    world.note(|| format!("people {deed:?} {run}"));
    let (engine, world) = (engine.in_workspace(&*ws), world.clone());
    tokio::spawn(async move {
        // The result does not matter here.
        let _ = match deed {
            Deed::Cancel => engine.cancel(run, "by hand").await,
            Deed::Pause => engine.pause(run).await,
            Deed::Resume => engine.resume(run).await,
            Deed::Signal => engine.signal(run, SIGNAL, json!("signal")).await,
            Deed::Replay => engine.replay(run).await.map(|outcome| promise(&world, &[outcome])),
            Deed::RetryFrom => {
                engine.retry_from(run, "s1").await.map(|outcome| promise(&world, &[outcome]))
            }
        };
    });
}

/// Picks a live run, or an ended one.
fn pick(world: &World, chance: &mut Chance, ended: bool, plain: bool) -> Option<(String, RunId)> {
    let inner = world.lock();
    let state = &inner.judge.state;
    let live = |run: &Run| (run.ws.to_string(), run.id);
    let over = |row: &Row| match row {
        // With `plain`, actions are left out: a retry copies the records of its run, but not the
        // staged session state.
        Row::Ended(Ended { ws, id, workflow, .. }) if !(plain && workflow.contains('/')) => {
            Some((ws.to_string(), *id))
        }
        _ => None,
    };
    let runs: Vec<_> = if ended {
        state.rows().filter_map(over).collect()
    } else {
        state.runs().map(live).collect()
    };
    if runs.is_empty() { None } else { Some(runs[chance.index(runs.len())].clone()) }
}
