//! Workflows: definitions and releases.

use std::sync::Arc;

use axum::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate::{Engine, RunId};
use tidegate_core::{
    catalog::{Catalog, Entry},
    definition::Definition,
    reads::ReadSet,
    version::{Registered, Released},
};

use super::{
    Caller,
    body::{At, Body, Query},
    operation::Operation,
    problem::Problem,
    schema::Object,
};

/// Returns the HTTP operations that this file defines.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/workflows", "listWorkflows", list)
            .says("List all workflows with their controls.")
            .answers::<WorkflowList>(200, "All workflows."),
        Operation::get("/workflows/{name}", "showWorkflow", show)
            .says("Show a workflow with its definition.")
            .query::<Of>()
            .answers::<WorkflowView>(200, "The workflow, as the current release defines it."),
        Operation::put("/workflows/{name}", "defineWorkflow", define)
            .says("Define a workflow that is called by URL. A change creates a new version.")
            .query::<Of>()
            .body::<Object>()
            .answers::<Defined>(200, "The workflow is defined."),
        Operation::delete("/workflows/{name}", "deleteWorkflow", delete)
            .says("Delete a workflow. Accepted runs continue, and its history stays.")
            .query::<Of>()
            .answers::<Deleted>(200, "The number of runs that continue."),
        Operation::post("/workflows/{name}/release", "release", release)
            .logs_body()
            .says("Release a version: new runs use it, under its handoff.")
            .query::<Of>()
            .body::<ReleaseBody>()
            .answers::<ReleasedVersion>(200, "The version is the current one."),
    ]
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Of {
    app: Option<String>,
}

/// Returns all definitions of a workspace.
pub(crate) async fn catalog(engine: &Engine) -> Result<Arc<Catalog>, tidegate::Error> {
    let ws = engine.workspace().into();
    let catalogs = engine.store().read(ReadSet::default().catalog(&ws)).await?.catalogs;
    Ok(catalogs.get(&ws).cloned().unwrap_or_default())
}

/// A workflow, as the API returns it: its current release.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Workflow")]
pub(super) struct WorkflowView {
    app: String,
    name: String,
    /// All version numbers.
    versions: Vec<u32>,
    /// Version number of the current release.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    triggers: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// JSON Schema of the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    schema: Option<Value>,
    /// Controls of the workflow, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    flow_control: Option<Value>,
    /// The whole definition as its author wrote it; absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    definition: Option<Value>,
}

/// All workflows of a workspace.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Workflows")]
pub(super) struct WorkflowList {
    workflows: Vec<WorkflowView>,
}

fn view(app: &str, name: &str, entry: &Entry) -> WorkflowView {
    let view = WorkflowView {
        app: app.to_owned(),
        name: name.to_owned(),
        versions: entry.versions.keys().copied().collect(),
        ..WorkflowView::default()
    };
    let Some(current) = &entry.current else { return view };
    let workflow = current.workflow.public();
    let triggers = workflow.to_value().get("triggers").and_then(Value::as_array).cloned();
    WorkflowView {
        version: Some(current.version.number),
        triggers: Some(triggers.unwrap_or_default()),
        url: workflow.called_at().map(str::to_owned),
        description: current.workflow.description.clone(),
        schema: current.workflow.schema.clone(),
        flow_control: current.workflow.flow_control(),
        ..view
    }
}

pub(super) async fn list(caller: Caller) -> Result<Json<WorkflowList>, Problem> {
    let catalog = catalog(&caller.engine).await?;
    let there = catalog.entries().filter(|(_, entry)| !entry.is_retired());
    let workflows = there.map(|((app, name), entry)| view(app, name, entry)).collect();
    Ok(Json(WorkflowList { workflows }))
}

pub(super) async fn show(
    caller: Caller,
    At(name): At<String>,
    Query(of): Query<Of>,
) -> Result<Json<WorkflowView>, Problem> {
    let app = caller.app(of.app);
    let catalog = catalog(&caller.engine).await?;
    let entry = catalog.entry(&app, &name).filter(|entry| !entry.is_retired());
    let entry = entry.ok_or_else(|| {
        let detail = format!("there is no workflow `{name}` in app `{app}`");
        Problem::not_found("no_workflow", detail)
    })?;
    let definition = entry.current.as_ref().map(|current| current.workflow.public().to_value());
    Ok(Json(WorkflowView { definition, ..view(&app, &name, entry) }))
}

/// A registered definition.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Defined {
    app: String,
    name: String,
    version: u32,
    /// Whether this version was already registered with the same definition.
    unchanged: bool,
    warnings: Vec<String>,
    /// Effects of the release; absent if this version was already the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    released: Option<ReleasedView>,
}

/// Effects of a release on the runs of other versions.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Released")]
struct ReleasedView {
    /// Number of runs of other versions that have not ended.
    older: u32,
    /// Number of these runs whose version no live engine serves.
    stranded: u32,
    /// Runs of other versions that have no key for the handoff.
    lacking: Vec<RunId>,
}

/// Defines a workflow that is called by URL. A change creates a new version.
pub(super) async fn define(
    caller: Caller,
    At(name): At<String>,
    Query(of): Query<Of>,
    body: Body,
) -> Result<Json<Defined>, Problem> {
    let app = caller.app(of.app);
    let mut definition: Value = body.required()?;
    let members = definition
        .as_object_mut()
        .ok_or_else(|| Problem::invalid("bad_definition", "a definition must be an object"))?;
    // In a definition the name of an action does not include its flow; in the URL it does.
    let flow = members.get("flow").and_then(Value::as_str);
    let prefix = flow.map(|flow| format!("{flow}/")).unwrap_or_default();
    let short = name.strip_prefix(&prefix).unwrap_or(&name);
    for (field, value) in [("name", short), ("app", app.as_str())] {
        let given = members.entry(field).or_insert_with(|| value.into());
        if given != value {
            let detail = format!("`{field}` is {given} in the body, but `{value}` in the URL");
            return Err(Problem::invalid("bad_definition", detail));
        }
    }
    if Definition::parse(&definition).is_ok() {
        check_urls(&definition).map_err(|error| Problem::invalid("bad_definition", error))?;
    }
    let registered = caller.engine.define(&definition).await?;
    let warnings = warnings(&caller, &definition, &registered).await?;
    let Registered { version, unchanged, released, .. } = registered;
    let released = released.map(ReleasedView::from);
    Ok(Json(Defined { app, name, version, unchanged, warnings, released }))
}

/// Checks the URLs of a definition with the same parser as calls. A URL that only this parser
/// refuses, such as `http://1.2.3.999`, would fail every run.
pub(crate) fn check_urls(definition: &Value) -> Result<(), String> {
    for (field, url) in [
        ("url", &definition["url"]),
        ("onFailure.url", &definition["onFailure"]["url"]),
        ("remote.url", &definition["remote"]["url"]),
    ] {
        if let Some(error) = url.as_str().and_then(|url| reqwest::Url::parse(url).err()) {
            let name = definition["name"].as_str().unwrap_or_default();
            return Err(format!("workflow `{name}`: {field} is not a valid URL: {error}"));
        }
    }
    Ok(())
}

/// Returns the warnings about a valid definition.
async fn warnings(
    caller: &Caller,
    definition: &Value,
    registered: &Registered,
) -> Result<Vec<String>, Problem> {
    let parsed = Definition::parse(definition).map_err(|it| tidegate::Error::Definition(it.0))?;
    let mut warnings: Vec<_> = parsed.warnings.iter().map(ToString::to_string).collect();
    if !parsed.value.is_called() && !caller.engine.is_served(registered).await? {
        warnings.push(format!(
            "workflow `{}`: no engine has code for it, and it has no `url`: its runs wait until an \
             engine with its code starts",
            parsed.value.name
        ));
    }
    Ok(warnings)
}

/// A deleted workflow.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Deleted {
    app: String,
    name: String,
    /// Number of runs that have not ended. They continue.
    live: u32,
}

pub(super) async fn delete(
    caller: Caller,
    At(name): At<String>,
    Query(of): Query<Of>,
) -> Result<Json<Deleted>, Problem> {
    let app = caller.app(of.app);
    let live = caller.engine.retire(&app, &name).await?.live;
    Ok(Json(Deleted { app, name, live }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReleaseBody {
    #[schemars(range(min = 1))]
    version: u32,
}

/// A released version.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ReleasedVersion {
    app: String,
    name: String,
    version: u32,
    #[serde(flatten)]
    released: ReleasedView,
}

pub(super) async fn release(
    caller: Caller,
    At(name): At<String>,
    Query(of): Query<Of>,
    body: Body,
) -> Result<Json<ReleasedVersion>, Problem> {
    let app = caller.app(of.app);
    let ReleaseBody { version } = body.required()?;
    let released = caller.engine.release(&app, &name, version).await?.into();
    Ok(Json(ReleasedVersion { app, name, version, released }))
}

impl From<Released> for ReleasedView {
    fn from(Released { older, stranded, lacking, .. }: Released) -> Self {
        Self { older, stranded, lacking }
    }
}
