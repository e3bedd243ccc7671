//! Replays histories against the current code, without effects.

use std::{
    any::Any, collections::BTreeMap, fmt, future::poll_fn, panic::AssertUnwindSafe, sync::Arc,
    task::Poll, time::Duration,
};

use tidegate_core::{
    id::RunId,
    row::{Purpose, Workspace},
};
use tokio::{sync::watch, task::JoinSet};

use super::TestHarness;
use crate::{
    builder::EngineBuilder,
    context::{Activation, Ctx, Next, State},
    drive::{Patience, Polled, Reached},
    engine::Shared,
    error::Error,
    handler::BAD_INPUT,
    history::History,
    registry::ServedVersion,
    step_error::StepError,
    timer::SystemTimer,
};

/// Results of replaying histories against the current code.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// One entry for each history, in the order of the histories.
    pub runs: Vec<Replayed>,
}

/// Result of replaying one history.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Replayed {
    /// Id of the run.
    pub run: RunId,
    /// Workflow of the run.
    pub workflow: String,
    /// Version that the run was admitted under.
    pub version: u32,
    /// Result of the replay.
    pub end: ReplayEnd,
}

/// Result of a replay.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ReplayEnd {
    /// The code requested every record. After that it may have requested a new operation.
    Fine,
    /// The run would fail.
    Breaks(StepError),
    /// The history could not be replayed, for this reason.
    Skipped(String),
}

impl Report {
    /// Returns the runs that would fail.
    pub fn broken(&self) -> impl Iterator<Item = &Replayed> {
        self.runs.iter().filter(|run| matches!(run.end, ReplayEnd::Breaks(_)))
    }
}

/// Writes one line for each run that would fail or could not be replayed, and one line with the
/// totals.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut broken, mut skipped) = (0, 0);
        for Replayed { run, workflow, version, end } in &self.runs {
            match end {
                ReplayEnd::Fine => {}
                ReplayEnd::Breaks(fault) => {
                    broken += 1;
                    writeln!(f, "{run} of `{workflow}` v{version} would fail: {fault}")?;
                }
                ReplayEnd::Skipped(reason) => {
                    skipped += 1;
                    writeln!(f, "{run} of `{workflow}` v{version} was skipped: {reason}")?;
                }
            }
        }
        let runs = self.runs.len();
        write!(f, "{runs} runs replayed, {broken} would fail, {skipped} skipped")
    }
}

/// Maximum time that a handler may await something outside of its operations.
const LIMIT: Duration = Duration::from_secs(5);

/// Maximum number of histories replayed at once.
const AT_ONCE: usize = 64;

/// Replays histories against the code that an engine would serve, and reports the runs that would
/// fail with this code.
///
/// A history is one line of JSON, as `tidegate runs export` writes it. No step closure is executed,
/// no event is sent, and a replay ends at the first operation without a record.
///
/// ```
/// use serde_json::Value;
/// use tidegate::{Ctx, Workflow, testing};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tidegate::Result<()> {
/// # let histories = "";
/// let order = Workflow::new("order", async |ctx: Ctx, _: Value| {
///     ctx.step("charge", || async { Ok(()) }).await
/// });
/// let report = testing::replay(|engine| engine.workflow(order), histories).await?;
/// assert_eq!(report.broken().count(), 0, "{report}");
/// # Ok(())
/// # }
/// ```
///
/// Runs of workflows that the engine does not serve, and runs that compensate or handle a failure,
/// are skipped. A history does not contain data that a handler reads from other runs
/// ([`Ctx::replaced`]).
pub async fn replay(
    serve: impl FnOnce(EngineBuilder) -> EngineBuilder,
    histories: &str,
) -> Result<Report, Error> {
    let harness = TestHarness::new();
    // This engine gets no events, and its clock does not advance. It only provides the code.
    let engine = serve(harness.engine()).start().await?;
    let (mut replays, mut runs) = (JoinSet::new(), BTreeMap::new());
    for (n, line) in histories.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let history: History = serde_json::from_str(line).map_err(|error| {
            Error::Value(format!("line {} of the histories cannot be read: {error}", n + 1))
        })?;
        if replays.len() >= AT_ONCE {
            runs.extend(replays.join_next().await.and_then(Result::ok));
        }
        let (run, workflow, version) = (history.run, history.workflow.clone(), history.version);
        let code = engine.code(&history.app, &history.workflow, history.version);
        let (shared, ws) = (engine.shared().clone(), Workspace::from(engine.workspace()));
        replays.spawn(async move {
            let end = match code {
                Some(code) => replay_one(&shared, &code, &ws, history).await,
                None => ReplayEnd::Skipped("its workflow is not served".to_owned()),
            };
            (n, Replayed { run, workflow, version, end })
        });
    }
    while let Some(replayed) = replays.join_next().await {
        runs.extend(replayed.ok());
    }
    engine.shutdown().await;
    Ok(Report { runs: runs.into_values().collect() })
}

async fn replay_one(
    shared: &Arc<Shared>,
    code: &ServedVersion,
    ws: &Workspace,
    history: History,
) -> ReplayEnd {
    let skipped = |reason: &str| ReplayEnd::Skipped(reason.to_owned());
    if history.purpose != Purpose::Ordinary {
        return skipped("it compensates another run or handles its failure");
    }
    // The run failed before its first record, so an error of the handler is no sign of changed
    // code.
    let failed = history.state == "failed" && history.steps.is_empty();
    for for_tasks in [false, true] {
        let Some((run, events, steps)) = history.clone().into_rows(ws) else {
            return skipped("its input is not in the history");
        };
        let state = State::past(&run, steps);
        let activation = Activation { run, events, definition: code.definition.clone() };
        let (_stop, stopped) = watch::channel(None);
        let ctx = Ctx::new(activation, state, shared.clone(), stopped);
        let broken = match reach(&ctx, code, for_tasks).await {
            Ok(broken) => broken,
            Err(fault) => Some(fault).filter(|_| !failed),
        };
        match broken {
            // A task that the handler has spawned may still request the records: try again, and
            // wait for it.
            Some(_) if !for_tasks && ctx.is_held_elsewhere() => {}
            Some(fault) => return ReplayEnd::Breaks(fault),
            None => break,
        }
    }
    ReplayEnd::Fine
}

/// Replays a handler. Returns the error that would fail the run whatever its handler does, if any.
/// Returns `Err` for an error of the handler's own code.
async fn reach(
    ctx: &Ctx,
    code: &ServedVersion,
    for_tasks: bool,
) -> Result<Option<StepError>, StepError> {
    let timer = Arc::new(SystemTimer::new());
    let patience = Patience { timer, limit: LIMIT, for_tasks };
    let mut handler = None;
    let reached = poll_fn(|cx| {
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let start = || Polled::new(code.handler.call(ctx.clone()), patience.clone());
            handler.get_or_insert_with(start).poll(ctx, cx)
        }));
        let panicked = |payload: Box<dyn Any + Send>| StepError::panicked(payload.as_ref());
        polled.map_or_else(|payload| Poll::Ready(Err(panicked(payload))), |it| it.map(Ok))
    });
    // Twice the limit, because the handler may also await something after the last record.
    let reached = tokio::time::timeout(2 * LIMIT, reached).await;
    drop(handler);
    let state = ctx.activation_state();
    match reached {
        Ok(Ok(Reached::Next(Next::Stop(fault) | Next::Changed(fault)))) => Ok(Some(fault)),
        Ok(Ok(Reached::Next(Next::Fresh))) => Ok(None),
        Ok(Ok(Reached::End(Err(fault)))) if state.lost().is_some() || fault.code() == BAD_INPUT => {
            state.broken().map_or(Err(fault), |broken| Ok(Some(broken)))
        }
        Ok(Ok(_)) => Ok(state.broken().or_else(|| state.lost())),
        Ok(Err(panic)) => Err(panic),
        Err(_) => {
            let (limit, what) = (2 * LIMIT.as_secs(), "the handler awaits something outside");
            let message = format!("{what} of its operations for longer than {limit} s");
            Ok(Some(StepError::coded("TimedOut", message)))
        }
    }
}
