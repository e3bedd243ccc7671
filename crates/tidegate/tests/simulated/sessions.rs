//! Session state: the writes of every action, and the invariants on them.
//!
//! A run writes its number to the session at its start and at its end, and increments a counter.
//! Under `restart` all of these writes become visible together, when the run completes. So a
//! document never has the start of one run and the end of another.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate::Ctx;
use tidegate_core::row::{Ended, Ending, Row, RowKey, Session};
use tidegate_testkit::sim::{controls::Policy, state::State, workload::Plan};

/// Returns the name of the field that every run of an action writes at its start or end.
fn field(word: &str, name: &str) -> String {
    format!("{word}_{}", name.trim_start_matches("f/"))
}

/// Writes the start field and increments the counter, if there is a session.
pub(crate) async fn begin(ctx: &Ctx) -> tidegate::Result<()> {
    let Ok(session) = ctx.session() else { return Ok(()) };
    let (run, name) = (ctx.run_id().to_string(), ctx.workflow());
    session.set("begin", &field("begin", name), run).await?;
    session.increment::<i64>("count", &field("count", name), 1).await.map(drop)
}

/// Writes the end field, if there is a session.
pub(crate) async fn end(ctx: &Ctx) -> tidegate::Result<()> {
    let Ok(session) = ctx.session() else { return Ok(()) };
    session.set("end", &field("end", ctx.workflow()), ctx.run_id().to_string()).await
}

/// Returns whether the writes of this action's runs stay invisible until they complete; `None` if
/// it is not known.
fn is_staged(plan: &Plan, name: &str) -> Option<bool> {
    let spec = plan.specs.iter().find(|spec| spec.name == name)?;
    let staged = |policy: &Option<Policy>| *policy == Some(Policy::Restart);
    let mut all = spec.versions.iter().map(|(controls, _)| staged(&controls.policy));
    let first = all.next()?;
    // None if the versions differ: a release may have changed the policy.
    (plan.releases == 0 || all.all(|staged| staged == first)).then_some(first)
}

fn json(body: &str) -> Value {
    serde_json::from_str(body).expect("it is JSON")
}

/// Checks that under `restart` a document has the start and the end of the same run.
pub(crate) fn whole(plan: &Plan, session: &Session) -> Result<(), String> {
    let body = json(session.body.as_str());
    for spec in plan.specs.iter().filter(|spec| is_staged(plan, &spec.name) == Some(true)) {
        let [begin, end] = ["begin", "end"].map(|word| &body[field(word, &spec.name)]);
        if begin != end {
            return Err(format!(
                "session {} has the start of one run and the end of another: {body}",
                session.id
            ));
        }
    }
    Ok(())
}

/// Checks that at the end every run has incremented the counter once: with its record, or when it
/// completed.
pub(crate) fn settled(plan: &Plan, state: &State) -> Result<(), String> {
    let mut wanted: BTreeMap<(String, String, String), i64> = BTreeMap::new();
    for row in state.rows() {
        let Row::Step(step) = row else { continue };
        let Some(ended) = state.ended(step.run).filter(|_| step.id == "count") else { continue };
        let name = ended.workflow.trim_start_matches("f/");
        let completed = matches!(ended.ending, Ending::Completed { .. });
        let counts = is_staged(plan, name).map(|staged| !staged || completed);
        if step.result.is_err() || counts != Some(true) {
            continue;
        }
        let Some(session) = session_of(state, ended) else { continue };
        *wanted.entry((ended.ws.to_string(), session, field("count", name))).or_default() += 1;
    }
    for ((ws, session, field), count) in wanted {
        let document = state.rows().find_map(|row| match row {
            Row::Session(row) if *row.ws == *ws && row.id == session => Some(&row.body),
            _ => None,
        });
        let found = document.map(|body| json(body.as_str())[&field].as_i64());
        if found != Some(Some(count)) {
            return Err(format!("expected {count} as {field} in session {session}: {document:?}"));
        }
    }
    Ok(())
}

/// Returns the session of a run's request.
fn session_of(state: &State, ended: &Ended) -> Option<String> {
    match state.row(&RowKey::Event(ended.source.first().seq)) {
        Some(Row::Event(event)) => json(event.data.as_str())["session"].as_str().map(str::to_owned),
        _ => None,
    }
}
