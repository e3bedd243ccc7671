//! Handlers that decide by themselves what their records mean: they call code elsewhere, once for
//! each part of a run, and send it what is recorded.
//!
//! The code of these stories is a function from a call to an answer, as the app of an SDK is. Its
//! handler uses only `recorded`, `remember`, `pending`, `resume`, `failed_attempts` and `busy`
//! beside the usual operations.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, FutureExt, join, join_all, try_join_all};
use serde_json::{Value, json};
use tidegate::{
    Ctx, NewRecord, Payload, Result, Retry, StepError, StepKind, Workflow, testing::TestHarness,
};

use crate::words::{Journal, Marks, failed, recorded_steps, secs, sharing, start, state, steps};

/// One call of the code.
#[derive(Clone)]
pub(crate) struct Call {
    /// Values that are recorded, by step; `null` for a failed step.
    pub(crate) memos: BTreeMap<String, Value>,
    /// The step to run; none asks what comes next.
    pub(crate) target: Option<String>,
    /// Number of the attempt, from 1.
    pub(crate) attempt: u32,
    pub(crate) journal: Journal,
}

impl Call {
    /// Returns whether a step is recorded.
    pub(crate) fn has(&self, step: &str) -> bool {
        self.memos.contains_key(step)
    }
}

/// One part of the answer to a call.
pub(crate) enum Op {
    /// The call has run this step.
    Ran(&'static str, Value),
    /// A step of a group, which needs a call of its own.
    Planned(&'static str),
    Sleep(&'static str, Duration),
    Event(&'static str, &'static str),
    Return(Value),
}

type Answer = Result<Vec<Op>>;

/// Code elsewhere.
pub(crate) type Code = Arc<dyn Fn(Call) -> BoxFuture<'static, Answer> + Send + Sync>;

pub(crate) fn code<F, Fut>(journal: &Journal, call: F) -> (Journal, Code)
where
    F: Fn(Call) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Answer> + Send + 'static,
{
    (journal.clone(), Arc::new(move |it| call(it).boxed()))
}

/// Returns a workflow whose code is elsewhere.
pub(crate) fn remote(name: &str, code: (Journal, Code)) -> Workflow<Value, Value> {
    let drive = move |ctx: Ctx, _: Value| Remote { ctx, code: code.clone() }.drive();
    let retry = Retry { jitter: false, ..Retry::attempts(3).fixed(secs(10)) };
    Workflow::new(name, drive).retry(retry)
}

struct Remote {
    ctx: Ctx,
    code: (Journal, Code),
}

impl Remote {
    /// Calls the code until it returns. While members of a group are pending, nobody is asked what
    /// comes next.
    async fn drive(self) -> Result<Value> {
        loop {
            let records = self.ctx.recorded().await?.len();
            let waits = self.ctx.pending().into_iter().map(|wait| self.ctx.resume(wait.step));
            let failed = self.ctx.failed_attempts();
            let failed = failed.keys().map(|step| self.member(step));
            let (waits, failed) = (try_join_all(waits), join_all(failed));
            if join(waits, failed).await != (Ok(Vec::new()), Vec::new()) {
                continue;
            }
            let ops = self.call(None, self.ctx.attempt("")).await?;
            if let Some(Op::Return(value)) = ops.first() {
                return Ok(value.clone());
            }
            join_all(ops.iter().map(|op| self.act(op))).await;
            if self.ctx.recorded().await?.len() == records {
                return Err(StepError::new("the code did nothing").fatal());
            }
        }
    }

    /// Does one part of an answer.
    async fn act(&self, op: &Op) -> Result<()> {
        match op {
            Op::Ran(id, value) => self.ctx.remember(vec![record(id, value)]).await,
            Op::Planned(step) => {
                self.member(step).await;
                Ok(())
            }
            Op::Sleep(step, time) => self.ctx.sleep(*step, *time).await,
            Op::Event(step, name) => {
                self.ctx.wait_for_event::<Value>(*step, *name).timeout(secs(3600)).await.map(drop)
            }
            Op::Return(_) => Ok(()),
        }
    }

    /// Runs a planned step by a call of its own. Returns whether it succeeded.
    async fn member(&self, step: &str) -> bool {
        let run = || async {
            let answer = self.call(Some(step), self.ctx.attempt(step)).await?;
            match answer.into_iter().next() {
                Some(Op::Ran(id, value)) if id == step => Ok(value),
                _ => Err(StepError::new("it answered for another step")),
            }
        };
        self.ctx.repeatable_step(step, run).await.is_ok()
    }

    async fn call(&self, target: Option<&str>, attempt: u32) -> Answer {
        let memo = |step: tidegate::RecordedStep| {
            let value = step.result.map_or(Value::Null, |value| value.get().unwrap_or_default());
            (step.id, value)
        };
        let memos = self.ctx.recorded().await?.into_iter().map(memo).collect();
        let (journal, code) = self.code.clone();
        let target = target.map(str::to_owned);
        self.ctx.busy(code(Call { memos, target, attempt, journal })).await
    }
}

fn record(id: &str, value: &Value) -> NewRecord {
    let (id, result) = (id.to_owned(), Ok(Payload::from_value(value)));
    NewRecord { id, kind: StepKind::Run, result }
}

/// Returns the steps of `a`, `b`, `c` one after another, then their sum.
fn sum(call: Call) -> impl Future<Output = Answer> + Send {
    let next = ["a", "b", "c"].into_iter().find(|step| !call.has(step));
    call.journal.note(next.unwrap_or("end"));
    async move {
        call.journal.spend(secs(1)).await;
        let sum = || call.memos.values().filter_map(Value::as_u64).sum::<u64>();
        Ok(vec![next.map_or_else(|| Op::Return(json!(sum())), |step| Op::Ran(step, json!(1)))])
    }
}

/// spec remote: code elsewhere is called once for each step, and never again for a recorded one.
/// After a crash another engine goes on with what is recorded.
pub(crate) async fn code_elsewhere_goes_on_after_a_crash(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let build = || sharing(harness).workflow(remote("sum", code(&journal, sum)));
    let first = build().start().await.unwrap();
    let run = start(&first, "sum", json!(null)).await;
    harness.advance(Duration::from_millis(1500)).await;
    assert_eq!(journal.take(), ["a", "b"]);
    assert_eq!(recorded_steps(harness, run).await, ["a"]);
    harness.crash(&first).await;
    let second = build().start().await.unwrap();
    harness.advance(secs(300)).await;
    assert_eq!(harness.completed(&second, run).await, json!(3));
    assert_eq!(journal.take(), ["b", "c", "end"], "a recorded step must not be called again");
    assert_eq!(recorded_steps(harness, run).await, ["a", "b", "c"]);
}

/// spec remote: a group of steps, sleeps and waits is done when all its members are. While some are
/// pending, the run waits for them without a call; those that were done are not called again.
pub(crate) async fn a_group_of_code_elsewhere_is_done_together(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let group = |call: Call| async move {
        let members = ["x", "y", "nap", "paid"];
        if let Some(step) = call.target {
            call.journal.note(&step);
            return Ok(vec![Op::Ran(if step == "x" { "x" } else { "y" }, json!(step))]);
        }
        call.journal.note("next");
        let done = members.iter().all(|step| call.memos.contains_key(*step));
        Ok(if done {
            vec![Op::Return(json!(call.memos))]
        } else {
            vec![
                Op::Event("paid", "paid"),
                Op::Planned("x"),
                Op::Sleep("nap", secs(60)),
                Op::Planned("y"),
            ]
        })
    };
    let workflow = remote("group", code(&journal, group));
    let engine = harness.engine().workflow(workflow).start().await.unwrap();
    let run = start(&engine, "group", json!(null)).await;
    harness.advance(secs(30)).await;
    assert_eq!(state(harness, "group", run).await, "waiting");
    engine.send("paid", json!({ "cents": 5 })).await.unwrap();
    harness.advance(secs(29)).await;
    assert_eq!(journal.take(), ["next", "x", "y"]);
    assert_eq!(state(harness, "group", run).await, "waiting");
    harness.advance(secs(1)).await;
    assert_eq!(journal.take(), ["next"]);
    let all = json!({ "nap": null, "paid": { "cents": 5 }, "x": "x", "y": "y" });
    assert_eq!(harness.completed(&engine, run).await, all);
}

/// spec retries: failures of the handler itself are counted from the last record on. Without
/// progress the run fails after its attempts.
pub(crate) async fn progress_forgets_failures_of_the_handler(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let flaky = |call: Call| async move {
        let steps = ["a", "b"];
        call.journal.note(format!("{} {}", call.memos.len(), call.attempt));
        match steps.get(call.memos.len()) {
            _ if call.attempt < 3 => Err(StepError::new("down")),
            Some(step) => Ok(vec![Op::Ran(step, json!(1))]),
            None => Err(StepError::coded("Lost", "for good")),
        }
    };
    let workflow = remote("flaky", code(&journal, flaky));
    let engine = harness.engine().workflow(workflow).start().await.unwrap();
    let run = start(&engine, "flaky", json!(null)).await;
    harness.advance(secs(120)).await;
    let calls = ["0 1", "0 2", "0 3", "1 1", "1 2", "1 3", "2 1", "2 2", "2 3"];
    assert_eq!(journal.take(), calls);
    assert_eq!(failed(&engine, run).await.code(), "Lost");
}

/// spec retries: the end of a wait is progress, too, and so is a step of a handler that replays.
pub(crate) async fn a_wait_and_a_replayed_step_are_progress(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let (notes, marks) = (journal.clone(), Marks::default());
    let workflow = Workflow::new("typed", move |ctx: Ctx, _: Value| {
        let (notes, marks) = (notes.clone(), marks.clone());
        async move {
            for n in ["first", "second"] {
                ctx.sleep(format!("{n} nap"), secs(1)).await?;
                notes.note(format!("{n} {}", ctx.attempt("")));
                if marks.mark(n) < 3 {
                    return Err(StepError::new("down"));
                }
                ctx.step(n, || async { Ok(()) }).await?;
                notes.note(format!("{n} step {}", ctx.attempt("")));
            }
            Ok(())
        }
    });
    let workflow = workflow.retry(Retry::attempts(3).fixed(secs(10)));
    let engine = harness.engine().workflow(workflow).start().await.unwrap();
    let run = start(&engine, "typed", json!(null)).await;
    harness.advance(secs(120)).await;
    let notes = journal.take();
    assert_eq!(notes[..4], ["first 1", "first 2", "first 3", "first step 1"]);
    let second: Vec<_> = notes.iter().filter(|note| note.starts_with("second")).collect();
    assert_eq!(second, ["second 1", "second 2", "second 3", "second step 1"]);
    harness.completed(&engine, run).await;
}

/// spec remote: a step that is recorded already keeps its first result, also in one report. Kinds
/// with an effect of their own are refused, and so is a record before the records were read.
pub(crate) async fn only_what_is_new_and_plain_is_remembered(harness: &TestHarness) {
    let workflow = Workflow::new("keeps", |ctx: Ctx, how: String| async move {
        if how == "blind" {
            ctx.remember(vec![record("a", &json!(1))]).await?;
        }
        ctx.recorded().await?;
        if how == "commit" {
            let commit = NewRecord { kind: StepKind::Commit, ..record("a", &json!(1)) };
            ctx.remember(vec![record("b", &json!(1)), commit]).await?;
        }
        ctx.remember(vec![record("a", &json!(1)), record("a", &json!(2))]).await?;
        ctx.remember(vec![record("a", &json!(3)), record("b", &json!(4))]).await?;
        let steps = ctx.recorded().await?;
        ctx.remember(vec![record("b", &json!(5))]).await?;
        let value = |id: &str| ctx.step(id, || async { Ok(json!("run again")) });
        Ok((steps.len(), value("a").await?, value("b").await?))
    });
    let engine = harness.engine().workflow(workflow).start().await.unwrap();
    let run = start(&engine, "keeps", json!("twice")).await;
    harness.settle().await;
    assert_eq!(harness.completed(&engine, run).await, json!([2, 1, 4]));
    for how in ["blind", "commit"] {
        let run = start(&engine, "keeps", json!(how)).await;
        harness.settle().await;
        assert_eq!(failed(&engine, run).await.code(), "BadStep", "{how}");
        assert_eq!(steps(harness, run).await, [], "{how}: nothing of it may be recorded");
    }
    let lost = Workflow::new("lost", |ctx: Ctx, _: Value| async move {
        ctx.resume("nothing").await.map(|_| ())
    });
    let engine = harness.engine().workflow(lost).start().await.unwrap();
    let run = start(&engine, "lost", json!(null)).await;
    harness.settle().await;
    assert_eq!(failed(&engine, run).await.code(), "NoWait");
}

/// spec remote: a targeted step that has failed is known after a crash, and is tried again in its
/// turn; a group goes on with those that are missing.
pub(crate) async fn failed_attempts_outlive_a_crash(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let shaky = |call: Call| async move {
        let Some(step) = call.target else {
            call.journal.note("next");
            return Ok(match call.memos.len() {
                2 => vec![Op::Return(json!(call.memos))],
                _ => vec![Op::Planned("x"), Op::Planned("y")],
            });
        };
        call.journal.note(format!("{step} {}", call.attempt));
        if step == "y" && call.attempt < 3 {
            return Err(StepError::new("down"));
        }
        Ok(vec![Op::Ran(if step == "x" { "x" } else { "y" }, json!(call.attempt))])
    };
    let build = || sharing(harness).workflow(remote("shaky", code(&journal, shaky)));
    let first = build().start().await.unwrap();
    let run = start(&first, "shaky", json!(null)).await;
    harness.settle().await;
    assert_eq!(journal.take(), ["next", "x 1", "y 1"]);
    harness.crash(&first).await;
    let second = build().start().await.unwrap();
    harness.advance(secs(300)).await;
    assert_eq!(harness.completed(&second, run).await, json!({ "x": 1, "y": 3 }));
    assert_eq!(journal.take(), ["y 2", "y 3", "next"]);
}

/// spec remote, retries: a member of a group that has failed is called again when its backoff ends,
/// while the call of another member still lasts.
pub(crate) async fn a_member_is_tried_again_beside_another(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let uneven = |call: Call| async move {
        let Some(step) = call.target.as_deref() else {
            return Ok(match call.memos.len() {
                2 => vec![Op::Return(json!(call.memos))],
                _ => vec![Op::Planned("long"), Op::Planned("shaky")],
            });
        };
        call.journal.note(format!("{step} {}", call.attempt));
        if step == "long" {
            call.journal.spend(secs(100)).await;
            return Ok(vec![Op::Ran("long", json!(call.attempt))]);
        }
        match call.attempt {
            3 => Ok(vec![Op::Ran("shaky", json!(3))]),
            _ => Err(StepError::new("down")),
        }
    };
    let engine = harness.engine().workflow(remote("uneven", code(&journal, uneven)));
    let engine = engine.start().await.unwrap();
    let run = start(&engine, "uneven", json!(null)).await;
    harness.advance(secs(60)).await;
    let calls = [(0, "long 1"), (0, "shaky 1"), (10_000, "shaky 2"), (20_000, "shaky 3")];
    assert_eq!(journal.take_times(), calls.map(|(at, call)| (at, call.to_owned())));
    assert_eq!(recorded_steps(harness, run).await, ["shaky"]);
    harness.advance(secs(60)).await;
    assert_eq!(harness.completed(&engine, run).await, json!({ "long": 1, "shaky": 3 }));
}
