//! Limits that follow the outcomes of steps.

use serde_json::json;
use tidegate::{
    Adaptive, Concurrency, Ctx, GateToClose, Pool, Retry, StepError, Workflow, testing::TestHarness,
};
use tidegate_core::row::{Gate, Row};

use crate::words::{Journal, ms, secs, start, state};

/// A limit of eight, from one to sixteen.
fn eight() -> Concurrency {
    Concurrency::limit(8).adaptive(Adaptive::between(1, 16).cooldown(ms(1)))
}

/// Returns the changed values of gates, each with its number of successes: those of pools last.
async fn values(harness: &TestHarness) -> Vec<(u32, u32)> {
    let rows = harness.store().dump().await.unwrap();
    let value = |gate: &Gate| gate.state.adapted().map(|it| (it.limit, it.successes));
    rows.iter().filter_map(Row::as_gate).filter_map(value).collect()
}

/// A workflow whose step ends as its input says; it passes the pool, if one is named.
fn asking(journal: &Journal, pool: Option<&'static str>) -> Workflow<String, ()> {
    let journal = journal.clone();
    Workflow::new("ask", move |ctx: Ctx, how: String| {
        let journal = journal.clone();
        async move {
            let step = ctx.step("call", || async {
                match how.as_str() {
                    "busy" => Err(StepError::coded("Busy", "busy").overload()),
                    "broken" => Err(StepError::new("broken")),
                    "closes" => Err(ctx.close_gate(GateToClose::Concurrency, ms(10))),
                    "slow" => {
                        journal.spend(secs(1)).await;
                        Ok(())
                    }
                    _ => Ok(()),
                }
            });
            let step = step.timeout(ms(100)).retry(Retry::attempts(1));
            match pool {
                Some(pool) => step.pool(pool).await,
                None => step.await,
            }
        }
    })
}

/// spec L28: errors that are marked, time-outs and closings lower the limit, recorded steps raise
/// it, and other failures change nothing.
pub(crate) async fn outcomes_of_steps_move_an_adaptive_limit(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let ask = asking(&journal, None).concurrency(eight());
    let engine = harness.engine().workflow(ask).start().await.unwrap();
    for (how, ended, expected) in [
        ("good", "completed", vec![(8, 1)]),
        ("broken", "failed", vec![(8, 1)]),
        ("busy", "failed", vec![(4, 0)]),
        ("slow", "failed", vec![(2, 0)]),
        ("good", "completed", vec![(2, 1)]),
        ("closes", "waiting", vec![(1, 0)]),
    ] {
        let run = start(&engine, "ask", json!(how)).await;
        harness.settle().await;
        harness.advance(ms(if how == "closes" { 5 } else { 200 })).await;
        assert_eq!(state(harness, "ask", run).await, ended, "{how}");
        assert_eq!(values(harness).await, expected, "{how}");
    }
}

/// spec L28: the outcome of a step that passes a pool counts there, once, also if the failure of
/// the step ends the handler.
pub(crate) async fn a_step_signals_only_at_its_pool(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let ask = asking(&journal, Some("api")).concurrency(eight());
    let pool = Pool::new("api").concurrency(eight());
    let engine = harness.engine().pool(pool).workflow(ask).start().await.unwrap();
    for (how, expected) in [("good", (8, 1)), ("busy", (4, 0)), ("slow", (2, 0))] {
        start(&engine, "ask", json!(how)).await;
        harness.advance(ms(200)).await;
        assert_eq!(values(harness).await, [expected], "{how}");
    }
}
