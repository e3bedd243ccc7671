//! Code of every workflow, action and reaction in the databases.
//!
//! The generator that made the databases and the test that finishes their runs use the same
//! handlers. A handler knows which of the two executes it, and records the word: the output
//! `["made", "opened"]` shows that the first step was read from the database and the second was
//! executed by this build.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate::{
    Action, Batch, Concurrency, Ctx, Debounce, EngineBuilder, Flow, Handoff, Idempotency,
    OnNewVersion, Policy, Priority, Rate, Reaction, ReactionCtx, Result, Retry, Schedule,
    ServedWorkflow, Singleton, State, StepError, StreamEvent, Workflow,
};

use crate::{inputs, limits};

/// The workspaces of the databases.
pub(crate) const WORKSPACES: [&str; 2] = ["default", "other"];

/// Longer than the generator ran.
pub(crate) const HOUR: Duration = Duration::from_secs(60 * 60);

/// Longer than the time by which the test advances its clock.
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Program that executes the handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// The generator: steps and reactions that should stay unfinished do not continue.
    Made,
    /// The test: everything ends.
    Opened,
}

impl Life {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Made => "made",
            Self::Opened => "opened",
        }
    }

    /// Executes a step that records which program executed it.
    pub(crate) async fn mark(self, ctx: &Ctx, step: &str) -> Result<String> {
        ctx.step(step, || async { Ok(self.word().to_owned()) }).await
    }

    /// Executes the same step, but in the generator it never finishes.
    pub(crate) async fn hang(self, ctx: &Ctx, step: &str) -> Result<String> {
        let hang = ctx.step(step, || async {
            if self == Self::Made {
                std::future::pending::<()>().await;
            }
            Ok(self.word().to_owned())
        });
        hang.await
    }
}

/// Returns an engine that serves all workflows, actions and reactions of the databases.
pub(crate) fn serve(engine: EngineBuilder, life: Life) -> EngineBuilder {
    let mut engine =
        limits::serve(engine, life).workspaces(WORKSPACES).flow(chat(life)).flow(desk(life));
    let workflows = waiting(life).into_iter().chain(controlled(life)).chain(ending(life));
    for workflow in workflows.chain(inputs::workflows(life)) {
        engine = engine.workflow(workflow);
    }
    for reaction in [copies(life), later(life), fragile(life)] {
        engine = engine.reaction(reaction);
    }
    engine
}

/// Creates a workflow from a function of context, input and life.
pub(crate) fn workflow<F, Fut>(name: &str, life: Life, handler: F) -> Workflow<Value, Value>
where
    F: Fn(Ctx, Value, Life) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Value>> + Send + 'static,
{
    Workflow::new(name, move |ctx, input| handler(ctx, input, life))
}

/// Records a step, waits for the event `go` with the same `n` as the input, and records another
/// step.
pub(crate) async fn between(ctx: Ctx, input: Value, life: Life) -> Result<Value> {
    let first = life.mark(&ctx, "first").await?;
    let go = ctx.wait_for_event::<Value>("go", "go").matching("n", &input["n"]);
    let go = go.timeout(WEEK).await?;
    let second = life.mark(&ctx, "second").await?;
    Ok(json!([first, go.map(|go| go["word"].clone()), second]))
}

/// Executes one step, which hangs in the generator.
pub(crate) async fn work(ctx: Ctx, input: Value, life: Life) -> Result<Value> {
    Ok(json!([input["n"], life.hang(&ctx, "work").await?]))
}

/// Records one step and ends.
pub(crate) async fn done(ctx: Ctx, input: Value, life: Life) -> Result<Value> {
    Ok(json!([input["n"], life.mark(&ctx, "work").await?]))
}

/// Sleeps for an hour between two steps.
async fn nap(ctx: Ctx, _: Value, life: Life) -> Result<Value> {
    let first = life.mark(&ctx, "first").await?;
    ctx.sleep("nap", HOUR).await?;
    Ok(json!([first, life.mark(&ctx, "second").await?]))
}

/// Workflows whose runs wait, or are in the middle of a step.
fn waiting(life: Life) -> Vec<ServedWorkflow> {
    let signalled = |ctx: Ctx, _: Value, life: Life| async move {
        let first = life.mark(&ctx, "first").await?;
        let answer = ctx.wait_for_signal::<Value>("answer", "approve").await?;
        let earlier = ctx.wait_for_signal::<Value>("earlier", "earlier").await?;
        Ok(json!([first, answer, earlier]))
    };
    let parent = |ctx: Ctx, input: Value, life: Life| async move {
        let first = life.mark(&ctx, "first").await?;
        let child: Value = ctx.invoke("call", "child", &input).await?;
        Ok(json!([first, child]))
    };
    let halfway = |ctx: Ctx, _: Value, life: Life| async move {
        let new = ctx.patched("newer").await?;
        ctx.emit(json!({ "life": life.word() }))?;
        ctx.progress(0.5, "half way");
        let first = life.mark(&ctx, "first").await?;
        let kept = ctx.commit("commit", "notes", &[Moved::Deposited { amount: 1 }]).await?;
        let drawn = [ctx.now("now").await?.micros() < 0, ctx.random("random").await? == 0];
        Ok(json!([new, first, kept.last, drawn, life.hang(&ctx, "second").await?]))
    };
    let retries = |ctx: Ctx, _: Value, life: Life| async move {
        let first = life.mark(&ctx, "first").await?;
        let call = ctx.step("call", || async {
            let attempt = ctx.attempt("call");
            if life == Life::Made { Err(StepError::new("no answer")) } else { Ok(attempt) }
        });
        let call = call.retry(Retry { jitter: false, ..Retry::attempts(5).fixed(HOUR) });
        Ok(json!([first, call.await?]))
    };
    let undone = |ctx: Ctx, input: Value, life: Life| async move {
        ctx.compensate("undo", move || async move {
            if life == Life::Opened { Ok(()) } else { Err(StepError::new("too early")) }
        })
        .await?;
        between(ctx, input, life).await
    };
    vec![
        workflow("sleeping", life, nap).timeout(WEEK).into(),
        workflow("awaiting", life, between).into(),
        workflow("signalled", life, signalled).into(),
        workflow("parent", life, parent).into(),
        workflow("child", life, nap).into(),
        workflow("halfway", life, halfway).into(),
        workflow("retrying", life, retries).into(),
        workflow("undone", life, undone).into(),
        workflow("paused", life, nap).into(),
        workflow("cancelled", life, nap).into(),
        workflow("stopped", life, work).into(),
        workflow("swept", life, nap).into(),
    ]
}

/// Workflows with controls.
fn controlled(life: Life) -> Vec<ServedWorkflow> {
    let batched = move |ctx: Ctx, all: Vec<Value>| async move {
        let numbers: Vec<_> = all.iter().map(|one| one["n"].clone()).collect();
        Ok(json!([numbers, life.mark(&ctx, "work").await?]))
    };
    let limited = workflow("limited", life, work).concurrency(Concurrency::limit(1).key("account"));
    let limited = limited.concurrency(Concurrency::limit(2)).priority(Priority::shift(HOUR));
    let spanning = workflow("spanning", life, between);
    let spanning = spanning.concurrency(Concurrency::limit(1).for_the_whole_run());
    let debounce = Debounce::quiet(HOUR).key("document").at_most(2 * HOUR);
    let batch = Batch::of(3).within(HOUR).key("kind").max_bytes(100_000);
    let drain = || Handoff::keyed("tenant", OnNewVersion::Drain);
    vec![
        limited.into(),
        spanning.into(),
        workflow("throttled", life, done).throttle(Rate::of(1, HOUR).key("account")).into(),
        workflow("metered", life, done).rate_limit(Rate::of(2, 24 * HOUR).burst(1)).into(),
        workflow("debounced", life, done).debounce(debounce).into(),
        Workflow::new("batched", batched).batch(batch).into(),
        workflow("single", life, between).singleton(Singleton::skip().key("account")).into(),
        workflow("replacing", life, between).singleton(Singleton::cancel()).into(),
        workflow("once", life, done).idempotency(Idempotency::within(WEEK).key("id")).into(),
        workflow("handed", life, between).handoff(drain()).version(1).into(),
        workflow("handed", life, between).handoff(drain()).version(2).into(),
        workflow("hourly", life, done).schedule(Schedule::cron("@hourly").named("report")).into(),
        workflow("held", life, done)
            .schedule(
                Schedule::cron("30 * * * *")
                    .time_zone("Europe/Berlin")
                    .on_overlap(Policy::queue())
                    .catch_up(24 * HOUR),
            )
            .into(),
    ]
}

/// Workflows whose runs have ended.
fn ending(life: Life) -> Vec<ServedWorkflow> {
    let fails = |ctx: Ctx, input: Value, life: Life| async move {
        if life == Life::Made {
            return Err(StepError::coded("Declined", "the card was declined").fatal());
        }
        done(ctx, input, life).await
    };
    let noted = |ctx: Ctx, _: Value| async move {
        ctx.send_event("note", "noted", json!({ "by": ctx.workflow() })).await
    };
    let streamed = json!({ "name": "streamed", "triggers": [{ "stream": "Withdrawn" }] });
    vec![
        Workflow::from_definition(streamed, move |ctx, input| nap(ctx, input, life)).into(),
        workflow("completing", life, done).into(),
        workflow("failing", life, fails).retry(Retry::attempts(1)).on_failure(noted).into(),
    ]
}

/// Flow with actions that are allowed at once, queued, or debounced.
fn chat(life: Life) -> Flow {
    let append = move |ctx: Ctx, input: Value| async move {
        let session = ctx.session()?;
        let length = session.append("append", "lines", &input["line"]).await?;
        let count: u64 = session.increment("count", "count", 1).await?;
        session.merge("merge", "", json!({ "by": life.word() })).await?;
        Ok(json!([length, count]))
    };
    let respond = move |ctx: Ctx, input: Value| async move {
        let worked = life.hang(&ctx, "work").await?;
        let lines: Option<Value> = ctx.session()?.get("lines", "lines").await?;
        Ok(json!([input["n"], worked, lines]))
    };
    let index = move |ctx: Ctx, input: Value| done(ctx, input, life);
    Flow::new("chat")
        .action(Action::new("append", append).policy(Policy::allow()))
        .action(Action::new("respond", respond).policy(Policy::queue().at_most(WEEK)))
        .action(Action::new("index", index).policy(Policy::debounce(HOUR)))
}

/// Flow with actions that replace or refuse each other. The writes of a replaced run are staged.
fn desk(life: Life) -> Flow {
    let edit = move |ctx: Ctx, input: Value| async move {
        let session = ctx.session()?;
        let before: Option<Value> = session.get("before", "text").await?;
        session.set("draft", "text", &input["text"]).await?;
        let count: u64 = session.increment("count", "edits", 1).await?;
        let replaced = ctx.replaced().await?.is_some();
        Ok(json!([before, count, replaced, life.hang(&ctx, "work").await?]))
    };
    let sum = move |ctx: Ctx, input: Value| work(ctx, input, life);
    Flow::new("desk")
        .action(Action::new("edit", edit).policy(Policy::restart()))
        .action(Action::new("sum", sum).policy(Policy::reject().key("user")))
}

/// State of the streams `account-*`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    pub(crate) balance: u64,
}

/// The events of an account.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Moved {
    Deposited { amount: u64 },
    Withdrawn { amount: u64 },
}

impl State for Account {
    type Event = Moved;
    const SNAPSHOT_EVERY: Option<u32> = Some(2);

    fn apply(&mut self, event: &Moved) {
        match event {
            Moved::Deposited { amount } => self.balance += amount,
            Moved::Withdrawn { amount } => self.balance -= amount,
        }
    }
}

/// Commits a copy of the event to another stream, with the name of the program that handled it.
fn copy(ctx: &ReactionCtx, event: &StreamEvent, life: Life) -> Result<()> {
    let name = format!("{}-of-{}", ctx.reaction(), ctx.stream());
    ctx.commit_named(&name, &event.name, json!({ "version": event.version, "life": life.word() }))
}

/// A reaction that has handled all events.
fn copies(life: Life) -> Reaction {
    let reaction = Reaction::new("copies").source("account-*");
    reaction.on_any(move |ctx, event| async move { copy(&ctx, &event, life) })
}

/// A reaction that is behind: in the generator it handles two events and defers the others.
fn later(life: Life) -> Reaction {
    let reaction = Reaction::new("later").source("account-*").lease_time(HOUR).batch_size(2);
    reaction.on_any(move |ctx: ReactionCtx, event: StreamEvent| async move {
        if life == Life::Made && event.version >= 2 {
            ctx.defer_for(HOUR);
            return Ok(());
        }
        copy(&ctx, &event, life)
    })
}

/// A reaction that is blocked at the second event: in the generator its handler fails there.
fn fragile(life: Life) -> Reaction {
    let reaction = Reaction::new("fragile").source("account-*").max_retries(1);
    reaction.on_any(move |ctx: ReactionCtx, event: StreamEvent| async move {
        if life == Life::Made && event.version >= 1 {
            return Err(StepError::new("the printer is on fire"));
        }
        copy(&ctx, &event, life)
    })
}
