//! Runs: lists, details, and actions on one run.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use tidegate::{Engine, History, RunId};
use tidegate_core::{
    event::OutcomeView,
    explain::Why,
    flow::verdict::{By, WORKERS},
    id::EventId,
    list::{RunFilter, RunStatus},
    observe::origin::Origin,
    row::{Ended, Ending, Kind, Phase, Progress, Purpose, Row, Run, RunError, Step, StepKind},
    time::Timestamp,
};

use super::{
    Caller,
    body::{At, Body, Query, RunOf, as_is, newest_below, page_size},
    events_query::event_of,
    operation::Operation,
    problem::Problem,
    schema::{Cursor, DateTime, Name, PageSize},
};

/// Returns the HTTP operations that this file defines.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/runs", "listRuns", list)
            .says("List runs, newest first.")
            .query::<ListQuery>()
            .answers::<PageView>(200, "A page of runs."),
        Operation::get("/runs/export", "exportRuns", export)
            .says("Export histories of runs, newest first, to replay them against changed code.")
            .query::<ExportQuery>()
            .answers::<ExportView>(
                200,
                "A page of histories. It may be short although there are more.",
            ),
        Operation::get("/runs/{id}", "showRun", show)
            .says("Show a run.")
            .answers::<Shown<RunDetails>>(200, "The current state of the run."),
        Operation::get("/runs/{id}/steps", "listSteps", steps)
            .says("List the recorded steps of a run.")
            .answers::<Steps>(200, "All steps of the run."),
        Operation::get("/runs/{id}/why", "why", why)
            .says("Explain why a run waits, or how it ended.")
            .answers::<Why>(200, "The gates that block the run, and a sentence."),
        Operation::post("/runs/{id}/cancel", "cancelRun", cancel)
            .says("Cancel a run and signal its worker to stop.")
            .maybe_body::<CancelBody>()
            .answers::<Shown<RunView>>(200, "The current state of the run."),
        Operation::post("/runs/{id}/pause", "pauseRun", pause)
            .says("Pause a run where it is.")
            .answers::<Shown<RunView>>(200, "The current state of the run."),
        Operation::post("/runs/{id}/resume", "resumeRun", resume)
            .says("Resume a paused run.")
            .answers::<Shown<RunView>>(200, "The current state of the run."),
        Operation::post("/runs/{id}/replay", "replayRun", replay)
            .says("Replay a run from its beginning, as a new run.")
            .maybe_body::<ReplayBody<'_>>()
            .answers::<OutcomeView<'_>>(200, "The outcome of the new run."),
        Operation::post("/runs/{id}/retry", "retryRun", retry)
            .says("Retry a run from a step, as a new run with the results of the steps before.")
            .body::<RetryBody>()
            .answers::<OutcomeView<'_>>(200, "The outcome of the new run."),
        Operation::post("/runs/{id}/signals/{name}", "signalRun", signal)
            .input()
            .says("Send a signal to a run's inbox.")
            .maybe_body::<Value>()
            .answers::<Shown<RunView>>(200, "The current state of the run."),
    ]
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ListQuery {
    app: Option<String>,
    workflow: Option<String>,
    version: Option<u32>,
    #[schemars(extend("enum" = RunStatus::ALL.map(RunStatus::as_str)))]
    state: Option<String>,
    text: Option<String>,
    event: Option<String>,
    key: Option<String>,
    #[schemars(with = "Option<DateTime>")]
    from: Option<String>,
    #[schemars(with = "Option<DateTime>")]
    to: Option<String>,
    #[schemars(with = "Option<PageSize>")]
    limit: Option<u32>,
    #[schemars(with = "Option<Cursor>")]
    cursor: Option<String>,
}

pub(super) async fn list(
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<PageView>, Problem> {
    let engine = &caller.engine;
    let state = query.state.map(state_of).transpose()?;
    let ListQuery { app, workflow, version, text, key, .. } = query;
    let event = query.event.map(event_of).transpose()?;
    let (from, to) = (moment("from", query.from)?, moment("to", query.to)?);
    let which = RunFilter { app, workflow, version, state, text, event, key, from, to };
    let limit = page_size(query.limit)?;
    let page = engine.runs(&which, newest_below(query.cursor)?, limit).await?;
    let runs = page.runs.iter().filter_map(view).collect();
    Ok(Json(PageView { runs, next: page.next.map(|next| next.0.to_string()) }))
}

fn state_of(word: String) -> Result<RunStatus, Problem> {
    let state = RunStatus::ALL.into_iter().find(|state| state.as_str() == word);
    state.ok_or_else(|| {
        let words = RunStatus::ALL.map(RunStatus::as_str).join(", ");
        Problem::invalid("bad_query", format!("`state` must be one of {words}, got `{word}`"))
    })
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ExportQuery {
    app: Option<String>,
    workflow: Option<String>,
    version: Option<u32>,
    #[schemars(extend("enum" = RunStatus::ALL.map(RunStatus::as_str)))]
    state: Option<String>,
    #[schemars(with = "Option<PageSize>")]
    limit: Option<u32>,
    #[schemars(with = "Option<Cursor>")]
    cursor: Option<String>,
}

pub(super) async fn export(
    caller: Caller,
    Query(query): Query<ExportQuery>,
) -> Result<Json<ExportView>, Problem> {
    let ExportQuery { app, workflow, version, state, limit, cursor } = query;
    let state = state.map(state_of).transpose()?;
    let which = RunFilter { app, workflow, version, state, ..RunFilter::default() };
    let (below, limit) = (newest_below(cursor)?, page_size(limit)?);
    let page = caller.engine.histories(&which, below, limit).await?;
    let next = page.next.map(|next| next.0.to_string());
    Ok(Json(ExportView { histories: page.histories, next }))
}

/// A page of histories, newest first.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Histories")]
pub(super) struct ExportView {
    histories: Vec<History>,
    /// The cursor of the next page, if there is one.
    next: Option<String>,
}

fn moment(name: &str, text: Option<String>) -> Result<Option<Timestamp>, Problem> {
    let moment = text.map(|text| {
        Timestamp::parse_rfc3339(&text).ok_or_else(|| {
            let detail = format!("`{name}` must be a time like 2026-11-16T12:00:00Z, got `{text}`");
            Problem::invalid("bad_query", detail)
        })
    });
    moment.transpose()
}

/// A page of runs, newest first.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Runs")]
pub(super) struct PageView {
    runs: Vec<RunView>,
    /// The cursor of the next page, if there is one.
    next: Option<String>,
}

pub(super) fn view(row: &Row) -> Option<RunView> {
    if let Row::Run(run) = row {
        return Some(RunView::from(&**run));
    }
    if let Row::Ended(run) = row { Some(RunView::from(run)) } else { None }
}

/// A run, as the API returns it.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Run")]
pub(super) struct RunView {
    #[schemars(required)]
    id: Option<RunId>,
    app: String,
    workflow: String,
    version: u32,
    #[schemars(extend("enum" = RunStatus::ALL.map(RunStatus::as_str)))]
    state: &'static str,
    #[schemars(with = "DateTime")]
    queued_at: String,
    #[schemars(required)]
    event_id: Option<EventId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    ended_at: Option<String>,
    /// Time at which the run continues, if only time decides that.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    due_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Progress>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<RunError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Run that replaced this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced_by: Option<RunId>,
    /// If this run was cancelled as a duplicate: the other run with the same idempotency key.
    #[serde(skip_serializing_if = "Option::is_none")]
    survivor: Option<RunId>,
    /// Run that this one replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay_of: Option<RunId>,
    /// Run that this one compensates. `failureOf` is the run whose failure this one handles.
    #[serde(skip_serializing_if = "Option::is_none")]
    compensates: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_of: Option<RunId>,
    /// Number of times that another server took the run over from a dead one.
    #[serde(skip_serializing_if = "Option::is_none")]
    takeovers: Option<u32>,
    /// Gate at which the run is queued; or the workers, if it waits for a free one.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<WaitsFor>,
}

/// Gate, or the workers, that a queued run waits for.
#[derive(Debug, Serialize, JsonSchema)]
struct WaitsFor {
    control: &'static str,
    /// The pool that the limit belongs to, if it is no limit of the workflow itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

impl WaitsFor {
    fn of(run: &Run) -> Option<Self> {
        match run.phase {
            Phase::Ready => Some(Self { control: WORKERS, pool: None, key: None }),
            Phase::Queued { .. } => run.plan.get(run.entered).map(|need| {
                let By { control, key, pool, .. } = By::gate(&need.gate);
                Self { control, pool, key: Some(key) }
            }),
            Phase::Driven | Phase::Stopping | Phase::Waiting | Phase::Paused => None,
        }
    }
}

fn purpose(purpose: Purpose) -> (Option<RunId>, Option<RunId>) {
    match purpose {
        Purpose::Ordinary => (None, None),
        Purpose::Compensates(run) => (Some(run), None),
        Purpose::OnFailure(run) => (None, Some(run)),
    }
}

impl From<&Run> for RunView {
    fn from(run: &Run) -> Self {
        let (compensates, failure_of) = purpose(run.purpose);
        Self {
            compensates,
            failure_of,
            id: Some(run.id),
            app: run.app.clone(),
            workflow: run.workflow.clone(),
            version: run.version,
            state: RunStatus::of(run).map_or("cancelled", RunStatus::as_str),
            queued_at: run.queued_at.rfc3339(),
            event_id: Some(run.source.first()),
            due_at: run.due().map(Timestamp::rfc3339),
            progress: run.progress.clone(),
            reason: run.pause_reason.clone(),
            replaced: run.replaced,
            replay_of: run.replay_of,
            takeovers: Some(run.takeovers).filter(|times| *times > 0),
            waits_for: WaitsFor::of(run),
            ..Self::default()
        }
    }
}

impl From<&Ended> for RunView {
    fn from(run: &Ended) -> Self {
        let (mut output, mut error, mut reason, mut replaced_by) = (None, None, None, None);
        match run.ending.clone() {
            Ending::Completed { output: it } => output = Some(as_is(&it)),
            Ending::Failed { error: it } => error = Some(it),
            Ending::Cancelled { reason: it, by } => (reason, replaced_by) = (Some(it), by),
        }
        let survivor = run.ending.deduped_by();
        let replaced_by = replaced_by.filter(|_| survivor.is_none());
        let (compensates, failure_of) = purpose(run.purpose);
        Self {
            compensates,
            failure_of,
            id: Some(run.id),
            app: run.app.clone(),
            workflow: run.workflow.clone(),
            version: run.version,
            state: run.ending.state(),
            queued_at: run.queued_at.rfc3339(),
            event_id: Some(run.source.first()),
            ended_at: Some(run.ended_at.rfc3339()),
            replay_of: run.replay_of,
            output,
            error,
            reason,
            replaced_by,
            takeovers: Some(run.takeovers).filter(|times| *times > 0),
            survivor,
            ..Self::default()
        }
    }
}

pub(super) async fn show(caller: Caller, RunOf(run): RunOf) -> Result<Response, Problem> {
    let engine = &caller.engine;
    if let Some(run_view) = look_up(engine, run).await? {
        let origin = engine.origin(run).await?.map(OriginView::from);
        return Ok(Json(RunDetails { run: run_view, origin }).into_response());
    }
    folding(engine, run).await
}

/// A run, or the window or buffer that will become the run.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
#[expect(dead_code, reason = "describes the answers; each is sent as its own type")]
enum Shown<T> {
    Run(T),
    Folding(Folding),
}

/// A window or buffer that has not become a run yet, as the API returns it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "FoldingRun")]
struct Folding {
    id: RunId,
    state: &'static str,
    sentence: String,
}

/// Returns the view of a window or buffer that has not become a run yet.
async fn folding(engine: &Engine, run: RunId) -> Result<Response, Problem> {
    let why = engine.why(run).await?;
    Ok(Json(Folding { id: run, state: why.state, sentence: why.sentence }).into_response())
}

/// A run with its input and its origin.
#[derive(Debug, Serialize, JsonSchema)]
struct RunDetails {
    #[serde(flatten)]
    run: RunView,
    #[serde(flatten)]
    origin: Option<OriginView>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OriginView {
    /// Kind of input that started the run: `event`, `request`, `cron` or `invoke`.
    source: Kind,
    name: String,
    input: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<RunId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<RunId>,
}

impl From<Origin> for OriginView {
    fn from(origin: Origin) -> Self {
        let Origin { kind, name, inputs, batch, parent, children } = origin;
        let texts: Vec<_> = inputs.iter().map(|event| event.data.as_str()).collect();
        let texts = texts.join(",");
        let input = RawValue::from_string(if batch { format!("[{texts}]") } else { texts });
        let input = input.unwrap_or_else(|_| RawValue::NULL.to_owned());
        Self { source: kind, name, input, parent, children }
    }
}

async fn look_up(engine: &Engine, run: RunId) -> Result<Option<RunView>, Problem> {
    let (live, ended) = engine.look_up(run).await?;
    let ended = ended.as_ref().map(RunView::from);
    Ok(ended.or_else(|| live.as_ref().map(RunView::from)))
}

/// A step, as the API returns it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Step")]
struct StepView {
    id: String,
    kind: StepKind,
    #[schemars(with = "DateTime")]
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<RunError>,
}

impl From<Step> for StepView {
    fn from(step: Step) -> Self {
        let (output, error) = match step.result {
            Ok(output) => (Some(as_is(&output)), None),
            Err(error) => (None, Some(error)),
        };
        Self { id: step.id, kind: step.kind, at: step.at.rfc3339(), output, error }
    }
}

/// Recorded steps of a run.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Steps {
    steps: Vec<StepView>,
}

pub(super) async fn steps(caller: Caller, RunOf(run): RunOf) -> Result<Json<Steps>, Problem> {
    let steps = caller.engine.steps(run).await?.into_iter().map(StepView::from).collect();
    Ok(Json(Steps { steps }))
}

pub(super) async fn why(caller: Caller, RunOf(run): RunOf) -> Result<Json<Why>, Problem> {
    Ok(Json(caller.engine.why(run).await?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CancelBody {
    reason: Option<String>,
}

pub(super) async fn cancel(
    caller: Caller,
    RunOf(run): RunOf,
    body: Body,
) -> Result<Response, Problem> {
    let CancelBody { reason } = body.read()?;
    let reason = reason.unwrap_or_else(|| "cancelled manually".to_owned());
    caller.engine.cancel(run, &reason).await?;
    done(&caller, run).await
}

pub(super) async fn pause(caller: Caller, RunOf(run): RunOf) -> Result<Response, Problem> {
    caller.engine.pause(run).await?;
    done(&caller, run).await
}

pub(super) async fn resume(caller: Caller, RunOf(run): RunOf) -> Result<Response, Problem> {
    caller.engine.resume(run).await?;
    done(&caller, run).await
}

/// Returns the run after a change.
async fn done(caller: &Caller, run: RunId) -> Result<Response, Problem> {
    match look_up(&caller.engine, run).await? {
        Some(run) => Ok(Json(run).into_response()),
        None => folding(&caller.engine, run).await,
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReplayBody<'a> {
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

pub(super) async fn replay(
    caller: Caller,
    RunOf(run): RunOf,
    body: Body,
) -> Result<Response, Problem> {
    let ReplayBody { input } = body.read()?;
    let engine = &caller.engine;
    let outcome = match input {
        Some(input) => engine.replay_with(run, input).await?,
        None => engine.replay(run).await?,
    };
    Ok(Json(outcome.view()).into_response())
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RetryBody {
    #[schemars(with = "Name")]
    from: String,
}

pub(super) async fn retry(
    caller: Caller,
    RunOf(run): RunOf,
    body: Body,
) -> Result<Response, Problem> {
    let RetryBody { from } = body.required()?;
    Ok(Json(caller.engine.retry_from(run, &from).await?.view()).into_response())
}

#[derive(Deserialize)]
pub(super) struct SignalPath {
    name: String,
}

pub(super) async fn signal(
    caller: Caller,
    RunOf(run): RunOf,
    At(SignalPath { name }): At<SignalPath>,
    body: Body,
) -> Result<Response, Problem> {
    let data: &RawValue = if body.is_empty() { RawValue::NULL } else { body.json()? };
    caller.engine.signal(run, &name, data).await?;
    done(&caller, run).await
}
