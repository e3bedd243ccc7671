//! Replays of histories against the code of today, without effects.

use std::{fmt, future::poll_fn, time::Duration};

use tidegate_core::{
    id::RunId,
    row::{Purpose, Workspace},
};
use tokio::sync::watch;

use super::Lab;
use crate::{
    api::Engine,
    builder::EngineBuilder,
    context::{Activation, Ctx, Next, State},
    drive::{Polled, Reached},
    error::Error,
    fault::Fault,
    history::History,
};

/// What became of histories under the code of today.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// One entry for each history, in their order.
    pub runs: Vec<Replayed>,
}

/// What became of one history.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Replayed {
    /// The run.
    pub run: RunId,
    /// Its workflow.
    pub workflow: String,
    /// The version that it was admitted under.
    pub version: u32,
    /// How its replay ended.
    pub end: ReplayEnd,
}

/// How a replay ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ReplayEnd {
    /// The code asked for all that is recorded, and then for something new or nothing at all.
    Fine,
    /// The run would fail.
    Breaks(Fault),
    /// The history could not be replayed, for this reason.
    Skipped(String),
}

impl Report {
    /// The runs that would fail.
    pub fn broken(&self) -> impl Iterator<Item = &Replayed> {
        self.runs.iter().filter(|run| matches!(run.end, ReplayEnd::Breaks(_)))
    }
}

/// One line for each run that would fail or could not be replayed, and one with their numbers.
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

/// How long a handler may await something outside of its operations.
const LIMIT: Duration = Duration::from_secs(10);

/// Replays histories, one line of JSON each as `tidegate runs export` writes them, against the
/// code that an engine would serve, and says which runs it would break. No closure of a step is
/// run, nothing is sent, and a replay ends at the first operation that is not on record.
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
/// Runs of other workflows, and those that compensate or handle a failure, are skipped. What a
/// handler reads of other runs ([`Ctx::replaced`]) is not in a history.
pub async fn replay(
    serve: impl FnOnce(EngineBuilder) -> EngineBuilder,
    histories: &str,
) -> Result<Report, Error> {
    let lab = Lab::new();
    // Nothing is sent to it and its clock stands still: it only knows the code.
    let engine = serve(lab.engine()).start().await?;
    let mut runs = Vec::new();
    for (n, line) in histories.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let history: History = serde_json::from_str(line).map_err(|error| {
            Error::Value(format!("line {} of the histories is none: {error}", n + 1))
        })?;
        let (run, workflow, version) = (history.run, history.workflow.clone(), history.version);
        let end = replay_one(&engine, history).await;
        runs.push(Replayed { run, workflow, version, end });
    }
    engine.shut_down().await;
    Ok(Report { runs })
}

async fn replay_one(engine: &Engine, history: History) -> ReplayEnd {
    let skipped = |reason: &str| ReplayEnd::Skipped(reason.to_owned());
    if history.purpose != Purpose::Ordinary {
        return skipped("it compensates another run or handles its failure");
    }
    let shared = engine.shared();
    let version = engine.code(&history.app, &history.workflow, history.version);
    let Some(version) = version else { return skipped("its workflow is not served") };
    let ws = Workspace::from(engine.workspace());
    let Some((run, events, steps)) = history.into_rows(&ws) else {
        return skipped("its input is not in the history");
    };
    let state = State::past(&run, steps);
    let activation = Activation { run, events, definition: version.definition.clone() };
    let (_stop, stopped) = watch::channel(None);
    let ctx = Ctx::new(activation, state, shared.clone(), stopped);
    let mut handler = Polled::new(version.handler.call(ctx.clone()));
    let reached = poll_fn(|cx| handler.poll(&ctx, cx));
    let reached = tokio::time::timeout(LIMIT, reached).await;
    let broken = match reached {
        Ok(Reached::Next(Next::Stop(fault))) => Some(fault),
        Ok(Reached::Next(Next::Fresh)) => None,
        Ok(_) => ctx.state().broken(),
        Err(_) => Some(handler.halted().unwrap_or_else(|| {
            let limit = LIMIT.as_secs();
            let what = "the handler awaits something outside of its operations";
            Fault::coded("TimedOut", format!("{what} for longer than {limit} s"))
        })),
    };
    broken.map_or(ReplayEnd::Fine, ReplayEnd::Breaks)
}
