//! Workflow code as data, so that a test can change it, shorten it and generate it at random.

use std::{
    collections::BTreeMap,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use serde_json::Value;
use tidegate::{Ctx, Result, Retry, StepError, Workflow, testing::TestHarness};

/// A part of a workflow's code.
#[derive(Clone, Debug)]
pub(crate) enum Code {
    /// A step that returns a number and takes this many milliseconds.
    Step(String, u64),
    /// A step that returns a text.
    Text(String),
    /// A step whose first attempt fails.
    Flaky(String),
    /// A step that fails permanently.
    Fails(String),
    /// A call of `ctx.now`.
    Now(String),
    /// A step that sends an event.
    Send(String),
    /// A registered compensation.
    Undo(String),
    /// A sleep of this many milliseconds.
    Sleep(String, u64),
    /// A wait for the event `go`, with a timeout in milliseconds.
    Event(String, u64),
    /// A wait for the signal `go`, with a timeout in milliseconds.
    Signal(String, u64),
    /// A call of the workflow `child`.
    Invoke(String),
    /// The parts, one after another.
    All(Vec<Code>),
    /// All parts in parallel, until all are done.
    Join(Vec<Code>),
    /// All parts in parallel, until the first is done.
    Select(Vec<Code>),
    /// The part, repeated a random number of times. A step with this id returns the number.
    Loop(String, Box<Code>),
    /// An error or a panic of the handler itself, when the code gets here for the second time.
    Trip(String),
    /// The first part at the first attempt of the step with this id, the second part at later
    /// attempts.
    Attempt(String, Box<Code>, Box<Code>),
    /// The part. If it fails, the error is ignored.
    Swallow(Box<Code>),
    /// The first part if `ctx.patched` returns true, otherwise the second.
    Patch(String, Box<Code>, Box<Code>),
    /// All parts in parallel, each with a waker of its own.
    Unordered(Vec<Code>),
    /// The first part in a task of its own, at the same time as the second. The second is awaited
    /// first, then the task.
    Spawn(Box<Code>, Box<Code>),
    /// The part in a task of its own that is never awaited.
    Detach(Box<Code>),
    /// An await of something outside of the run's operations.
    Yield,
    /// An await outside of the run's operations that takes this many milliseconds.
    Outside(u64),
    /// An await that wakes itself again and again, and never completes.
    Spin,
    /// An await of something outside of the run's operations that never completes.
    Hang,
}

pub(crate) use Code::{
    All, Attempt, Detach, Event, Fails, Flaky, Hang, Invoke, Join, Loop, Now, Outside, Patch,
    Select, Send, Signal, Sleep, Spawn, Spin, Step, Swallow, Text, Trip, Undo, Unordered, Yield,
};

pub(crate) fn step(id: &str) -> Code {
    Step(id.to_owned(), 0)
}

/// The sleep during which a test changes the code.
pub(crate) fn night() -> Code {
    sleep("night")
}

pub(crate) fn sleep(id: &str) -> Code {
    Sleep(id.to_owned(), 60_000)
}

/// Environment of the programs: counts their effects, and determines the order of parallel parts.
#[derive(Clone)]
pub(crate) struct World {
    effects: Arc<Mutex<BTreeMap<String, usize>>>,
    turns: Arc<AtomicUsize>,
    timer: Arc<dyn tidegate::Timer>,
}

type Part = Pin<Box<dyn Future<Output = Result<()>> + std::marker::Send>>;

impl World {
    pub(crate) fn new(harness: &TestHarness) -> Self {
        let (effects, turns) = Default::default();
        Self { effects, turns, timer: harness.timer() }
    }

    /// Returns how often each step's closure has started.
    pub(crate) fn effects(&self) -> BTreeMap<String, usize> {
        self.effects.lock().unwrap().clone()
    }

    fn mark(&self, id: &str) {
        *self.effects.lock().unwrap().entry(id.to_owned()).or_default() += 1;
    }

    /// Returns the workflow `job` with this code.
    pub(crate) fn job(&self, code: &Code) -> Workflow<Value, ()> {
        let (world, code) = (self.clone(), code.clone());
        let retry = Retry::attempts(3).fixed(Duration::from_millis(70));
        let job = Workflow::new("job", move |ctx: Ctx, _: Value| {
            world.clone().play(ctx, code.clone(), String::new())
        });
        job.retry(retry)
    }

    /// Executes a part of the code. The suffix makes the step ids of loop iterations unique.
    fn play(self, ctx: Ctx, code: Code, suffix: String) -> Part {
        Box::pin(async move {
            let id = |id: String| format!("{id}{suffix}");
            let ms = Duration::from_millis;
            match code {
                Step(step, takes) => drop(self.step(&ctx, id(step), takes).await?),
                Text(step) => {
                    let step = id(step);
                    let closure = || async {
                        self.mark(&step);
                        Ok("text".to_owned())
                    };
                    ctx.step(step.clone(), closure).await?;
                }
                Flaky(step) => {
                    let step = id(step);
                    let first = ctx.attempt(&step) == 1;
                    let closure = || async {
                        self.mark(&step);
                        if first { Err(StepError::new("not yet")) } else { Ok(()) }
                    };
                    ctx.step(step.clone(), closure).await?;
                }
                Fails(step) => {
                    let closure = || async { Err(StepError::new("never").fatal()) };
                    ctx.step::<(), _, _>(id(step), closure).await?;
                }
                Now(step) => drop(ctx.now(id(step)).await?),
                Send(step) => ctx.send_event(id(step), "told", 0).await?,
                Undo(step) => ctx.compensate(id(step), || async { Ok(()) }).await?,
                Sleep(step, time) => ctx.sleep(id(step), ms(time)).await?,
                Event(step, limit) => {
                    ctx.wait_for_event::<Value>(id(step), "go").timeout(ms(limit)).await?;
                }
                Signal(step, limit) => {
                    ctx.wait_for_signal::<Value>(id(step), "go").timeout(ms(limit)).await?;
                }
                Invoke(step) => drop(ctx.invoke::<_, Value>(id(step), "child", 0).await?),
                All(parts) => {
                    for part in parts {
                        self.clone().play(ctx.clone(), part, suffix.clone()).await?;
                    }
                }
                Join(parts) => self.side_by_side(&ctx, parts, &suffix, false).await?,
                Select(parts) => self.side_by_side(&ctx, parts, &suffix, true).await?,
                Loop(step, part) => {
                    let times = self.step(&ctx, id(step), 0).await?;
                    for n in 0..times {
                        let suffix = format!("{suffix}.{n}");
                        self.clone().play(ctx.clone(), (*part).clone(), suffix).await?;
                    }
                }
                Attempt(step, first, later) => {
                    let part = if ctx.attempt(&id(step)) == 1 { first } else { later };
                    self.play(ctx, *part, suffix).await?;
                }
                Swallow(part) => drop(self.play(ctx, *part, suffix).await),
                Patch(patch, new, old) => {
                    let part = if ctx.patched(id(patch)).await? { new } else { old };
                    self.play(ctx, *part, suffix).await?;
                }
                part => self.play_outside(ctx, part, suffix).await?,
            }
            Ok(())
        })
    }

    /// Executes the parts that are not operations of the run: tasks, wakers, awaits and errors.
    async fn play_outside(self, ctx: Ctx, code: Code, suffix: String) -> Result<()> {
        let ms = Duration::from_millis;
        match code {
            Unordered(parts) => {
                let play = |part| self.clone().play(ctx.clone(), part, suffix.clone());
                let mut parts: FuturesUnordered<Part> = parts.into_iter().map(play).collect();
                while let Some(result) = parts.next().await {
                    result?;
                }
            }
            Spawn(task, part) => {
                let task = self.clone().play(ctx.clone(), *task, suffix.clone());
                let task = tokio::spawn(task);
                self.play(ctx, *part, suffix).await?;
                task.await.unwrap()?;
            }
            Detach(task) => drop(tokio::spawn(self.play(ctx, *task, suffix))),
            Trip(trip) => {
                self.mark(&trip);
                let second = self.effects()[&trip] == 2;
                assert!(!second || !trip.starts_with("panic"), "the handler panics");
                if second {
                    return Err(StepError::new("the handler trips"));
                }
            }
            Yield => tokio::task::yield_now().await,
            Outside(time) => self.timer.sleep_until(self.timer.elapsed() + ms(time)).await,
            Spin => {
                poll_fn(|cx| {
                    cx.waker().wake_by_ref();
                    Poll::<()>::Pending
                })
                .await;
            }
            Hang => tokio::sync::Notify::new().notified().await,
            _ => unreachable!("an operation"),
        }
        Ok(())
    }

    async fn step(&self, ctx: &Ctx, id: String, takes: u64) -> Result<usize> {
        let closure = || async {
            self.mark(&id);
            let until = self.timer.elapsed() + Duration::from_millis(takes);
            if takes > 0 {
                self.timer.sleep_until(until).await;
            }
            Ok(1 + self.turns.fetch_add(1, Ordering::SeqCst) % 3)
        };
        ctx.step(id.clone(), closure).await
    }

    /// Polls parts in parallel, in an order that changes between activations, as `select!` does.
    async fn side_by_side(
        &self,
        ctx: &Ctx,
        parts: Vec<Code>,
        suffix: &str,
        first: bool,
    ) -> Result<()> {
        let play = |part| Some(self.clone().play(ctx.clone(), part, suffix.to_owned()));
        let mut parts: Vec<Option<Part>> = parts.into_iter().map(play).collect();
        let turn = self.turns.fetch_add(1, Ordering::SeqCst) % parts.len().max(1);
        parts.rotate_left(turn);
        poll_fn(|cx| {
            for place in &mut parts {
                let Some(part) = place else { continue };
                if let Poll::Ready(result) = part.as_mut().poll(cx) {
                    *place = None;
                    if first || result.is_err() {
                        return Poll::Ready(result);
                    }
                }
            }
            if parts.iter().all(Option::is_none) { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
        .await
    }
}
