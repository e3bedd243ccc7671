//! `/overrides` and `/audit`: limits and pauses without a release, their history, and the audit log.

use axum::{Json, http::StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};
use tidegate::{
    AuditFilter, Overridden, Override, OverrideChange, OverrideEffect, OverrideFields, Part, Purged,
};
use tidegate_core::{overrides::Target, row::Audit, time::Timestamp};

use super::{
    Caller,
    body::{Body, Query, as_is, newest_below, page_size},
    operation::Operation,
    problem::Problem,
    schema::{DateTime, PageSize},
};

/// Returns the HTTP operations that this file defines.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/overrides", "listOverrides", list)
            .says("List the overrides in force, by target.")
            .query::<ListQuery>()
            .answers::<Overrides>(200, "The overrides in force."),
        Operation::put("/overrides", "setOverride", set)
            .says("Override limits of a target, pause it, or close it until a time, without a release.")
            .query::<ChangeQuery>()
            .body::<SetBody>()
            .answers::<ChangedView>(200, "The override before and after the change."),
        Operation::delete("/overrides", "removeOverride", remove)
            .says("End the override of a target.")
            .query::<ChangeQuery>()
            .body::<TargetBody>()
            .answers::<ChangedView>(200, "The override before the change."),
        Operation::post("/overrides/undo", "undoOverride", undo)
            .says("Undo the latest change of a target's override.")
            .query::<ChangeQuery>()
            .body::<TargetBody>()
            .answers::<ChangedView>(200, "The override before and after the change."),
        Operation::post("/overrides/purge", "purge", purge)
            .logs_body()
            .says("Cancel all runs that wait at the gates of a target.")
            .query::<ChangeQuery>()
            .body::<PurgeBody>()
            .answers::<PurgeView>(
                202,
                "The number of waiting runs, and the bulk operation that cancels them.",
            ),
        Operation::get("/overrides/history", "listOverrideHistory", history)
            .says("List the changes of overrides, newest first.")
            .query::<HistoryQuery>()
            .answers::<AuditLog>(200, "A page of changes."),
        Operation::get("/audit", "listAudit", audit)
            .says("List the changes that were made through the API, newest first.")
            .full()
            .query::<AuditQuery>()
            .answers::<AuditLog>(200, "A page of the audit log."),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ListQuery {
    app: Option<String>,
    workflow: Option<String>,
    pool: Option<String>,
    #[schemars(with = "Option<PageSize>")]
    limit: Option<u32>,
    cursor: Option<String>,
}

/// The overrides in force.
#[derive(Debug, Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "the name of the list in the answer")]
struct Overrides {
    overrides: Vec<OverrideView>,
    /// The epoch of definitions and overrides, for `ifEpoch` of a change.
    epoch: i64,
    next: Option<String>,
}

/// An override in force.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OverrideView {
    #[serde(flatten)]
    over: Override,
    /// For a pause or a closed target: whether no started run of the workflow lives, or nobody is
    /// inside the gates of the pool or the control. Absent if too many runs would have to be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    drained: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ChangeQuery {
    #[serde(default)]
    dry_run: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SetBody {
    target: Target,
    #[schemars(with = "Option<u32>")]
    limit: Option<Value>,
    #[schemars(with = "Option<u64>")]
    per_ms: Option<Value>,
    #[schemars(with = "Option<u32>")]
    burst: Option<Value>,
    #[schemars(with = "Option<u32>")]
    weight: Option<Value>,
    #[schemars(with = "Option<bool>")]
    paused: Option<Value>,
    /// Close the target's gates until this time.
    #[schemars(with = "Option<DateTime>")]
    closed_until: Option<String>,
    reason: Option<String>,
    #[schemars(with = "Option<DateTime>")]
    expires_at: Option<String>,
    /// Refuse the change if definitions or overrides have changed since this epoch.
    if_epoch: Option<i64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TargetBody {
    target: Target,
    /// Refuse the change if definitions or overrides have changed since this epoch.
    if_epoch: Option<i64>,
}

/// Result of a change, or of its preview.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ChangedOverride")]
struct ChangedView {
    #[serde(flatten)]
    changed: Overridden,
    /// In a preview: how many of the waiting runs would enter at once, and how many go on waiting.
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<OverrideEffect>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PurgeBody {
    target: Target,
    reason: Option<String>,
    /// Refuse the purge if definitions or overrides have changed since this epoch.
    if_epoch: Option<i64>,
}

/// A purge, or its preview.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Purge")]
struct PurgeView {
    /// Number of runs that wait at the target: those that the purge cancels.
    waiting: u32,
    /// Whether there may be more runs than were counted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    at_least: bool,
    /// The epoch of definitions and overrides, for `ifEpoch`.
    epoch: i64,
    /// The bulk operation that cancels the runs: `GET /runs/bulk/{id}` shows its progress. Absent
    /// in a preview.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
}

async fn purge(
    caller: Caller,
    Query(query): Query<ChangeQuery>,
    body: Body,
) -> Result<(StatusCode, Json<PurgeView>), Problem> {
    let PurgeBody { target, reason, if_epoch } = body.required()?;
    let target = of_caller(&caller, target);
    let purged = if query.dry_run {
        caller.engine.would_purge(target, if_epoch).await?
    } else {
        let reason = reason.unwrap_or_else(|| "purged".to_owned());
        caller.engine.purge(target, &reason, if_epoch).await?
    };
    let Purged { id, waiting, at_least, epoch } = purged;
    let id = (!query.dry_run).then(|| id.to_string());
    Ok((StatusCode::ACCEPTED, Json(PurgeView { waiting, at_least, epoch, id })))
}

async fn list(caller: Caller, Query(query): Query<ListQuery>) -> Result<Json<Overrides>, Problem> {
    let ListQuery { app, workflow, pool, limit, cursor } = query;
    let limit = page_size(limit)? as usize;
    let (mut overrides, epoch) = caller.engine.overrides_with_epoch().await?;
    let is = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|it| it == name);
    overrides.retain(|it| is(&app, &it.target.app) && is(&workflow, &it.target.workflow));
    overrides.retain(|it| pool.is_none() || pool == it.target.pool);
    if let Some(cursor) = cursor {
        let after: Target =
            serde_json::from_str(&cursor).map_err(|_| super::body::bad_cursor(&cursor))?;
        overrides.retain(|it| it.target > after);
    }
    let more = overrides.len() > limit;
    overrides.truncate(limit);
    let next = overrides.last().filter(|_| more).map(|it| it.target.subject());
    let drained = caller.engine.drained(&overrides).await?;
    let overrides = overrides.into_iter().zip(drained);
    let overrides = overrides.map(|(over, drained)| OverrideView { over, drained }).collect();
    Ok(Json(Overrides { overrides, epoch, next }))
}

async fn set(
    caller: Caller,
    Query(query): Query<ChangeQuery>,
    body: Body,
) -> Result<Json<ChangedView>, Problem> {
    let body: SetBody = body.required()?;
    let SetBody { reason, if_epoch, .. } = body;
    let limit = field("limit", "a whole number from 1 to 4294967295", body.limit)?;
    let per_ms = field("perMs", "a whole number of milliseconds", body.per_ms)?;
    let burst = field("burst", "a whole number from 1 to 4294967295", body.burst)?;
    let weight = field("weight", "a whole number from 1 to 1000", body.weight)?;
    let paused = field("paused", "true or false", body.paused)?;
    let expires_at = time("expiresAt", body.expires_at)?;
    let closed_until = time("closedUntil", body.closed_until)?;
    let target = of_caller(&caller, body.target);
    let fields = OverrideFields { limit, per_ms, burst, weight, paused, closed_until };
    let change = OverrideChange::Set { target, fields, reason, expires_at };
    apply(&caller, change, if_epoch, query.dry_run).await
}

/// Reads a field of an override, so that an error names the field, its rule and the value.
fn field<T: DeserializeOwned>(
    name: &str,
    rule: &str,
    value: Option<Value>,
) -> Result<Option<T>, Problem> {
    let Some(value) = value else { return Ok(None) };
    let read = T::deserialize(&value);
    let detail = || format!("override: {name} must be {rule}, got {value}");
    read.map(Some).map_err(|_| Problem::invalid("bad_override", detail()))
}

fn time(field: &str, text: Option<String>) -> Result<Option<Timestamp>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let at = Timestamp::parse_rfc3339(&text).ok_or_else(|| {
        let detail = format!("`{field}` must be a time like 2026-11-16T12:00:00Z, got `{text}`");
        Problem::invalid("bad_time", detail)
    });
    at.map(Some)
}

async fn remove(
    caller: Caller,
    Query(query): Query<ChangeQuery>,
    body: Body,
) -> Result<Json<ChangedView>, Problem> {
    let TargetBody { target, if_epoch } = body.required()?;
    let change = OverrideChange::Remove(of_caller(&caller, target));
    apply(&caller, change, if_epoch, query.dry_run).await
}

async fn undo(
    caller: Caller,
    Query(query): Query<ChangeQuery>,
    body: Body,
) -> Result<Json<ChangedView>, Problem> {
    let TargetBody { target, if_epoch } = body.required()?;
    let change = OverrideChange::Undo(of_caller(&caller, target));
    apply(&caller, change, if_epoch, query.dry_run).await
}

fn of_caller(caller: &Caller, target: Target) -> Target {
    if target.pool.is_some() {
        return target;
    }
    let app = caller.app(Some(target.app).filter(|app| !app.is_empty()));
    Target { app, ..target }
}

async fn apply(
    caller: &Caller,
    change: OverrideChange,
    if_epoch: Option<i64>,
    dry_run: bool,
) -> Result<Json<ChangedView>, Problem> {
    if !dry_run {
        let changed = caller.engine.change_override(change, if_epoch).await?;
        return Ok(Json(ChangedView { changed, effect: None }));
    }
    let target = change.target().clone();
    let changed = caller.engine.would_override(change, if_epoch).await?;
    let effect = caller.engine.override_effect(&target, changed.after.as_ref()).await?;
    Ok(Json(ChangedView { changed, effect: Some(effect) }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HistoryQuery {
    /// The `target` of an override, as JSON; absent for all targets.
    target: Option<String>,
    #[schemars(with = "Option<PageSize>")]
    limit: Option<u32>,
    cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AuditQuery {
    author: Option<String>,
    operation: Option<String>,
    subject: Option<String>,
    #[schemars(with = "Option<PageSize>")]
    limit: Option<u32>,
    cursor: Option<String>,
}

/// A page of changes, newest first.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Audit")]
struct AuditLog {
    changes: Vec<ChangeView>,
    next: Option<String>,
}

/// One change.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Change")]
struct ChangeView {
    /// Number of the change.
    id: String,
    #[schemars(with = "DateTime")]
    at: String,
    /// Name of the API key; absent without keys, and for changes by an engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<String>,
    /// Network address of the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// Name of the operation, as in the OpenAPI document.
    operation: String,
    /// Object of the change; for an override its target as JSON.
    subject: String,
    /// State before the change, if the operation records it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    before: Option<Box<RawValue>>,
    /// State after the change, or what was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    after: Option<Box<RawValue>>,
}

impl From<Audit> for ChangeView {
    fn from(row: Audit) -> Self {
        Self {
            id: row.seq.to_string(),
            at: row.at.rfc3339(),
            author: row.author,
            address: row.address,
            operation: row.operation,
            subject: row.subject,
            before: row.before.as_ref().map(as_is),
            after: row.after.as_ref().map(as_is),
        }
    }
}

async fn history(
    caller: Caller,
    Query(query): Query<HistoryQuery>,
) -> Result<Json<AuditLog>, Problem> {
    let HistoryQuery { target, limit, cursor } = query;
    let subject = target.map(|text| {
        let target: Target = serde_json::from_str(&text).map_err(|error| {
            let detail = format!("`target` must be the target of an override as JSON: {error}");
            Problem::invalid("bad_query", detail)
        })?;
        Ok::<_, Problem>(of_caller(&caller, target).normal().subject())
    });
    let which =
        AuditFilter { subject: subject.transpose()?, overrides: true, ..AuditFilter::default() };
    page(&caller, which, limit, cursor).await
}

async fn audit(caller: Caller, Query(query): Query<AuditQuery>) -> Result<Json<AuditLog>, Problem> {
    let AuditQuery { author, operation, subject, limit, cursor } = query;
    let which = AuditFilter { subject, author, operation, overrides: false };
    page(&caller, which, limit, cursor).await
}

async fn page(
    caller: &Caller,
    which: AuditFilter,
    limit: Option<u32>,
    cursor: Option<String>,
) -> Result<Json<AuditLog>, Problem> {
    let (limit, below) = (page_size(limit)?, newest_below(cursor)?);
    let page = caller.engine.audit(&which, Part { below, limit }).await?;
    let changes = page.items.into_iter().map(ChangeView::from).collect();
    Ok(Json(AuditLog { changes, next: page.next.map(|next| next.to_string()) }))
}
