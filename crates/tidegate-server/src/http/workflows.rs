//! Workflows: definitions and releases.

use std::sync::Arc;

use axum::Json;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate::Engine;
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
    schema::{any, closed, count, flag, list as many, number, object, of, string, text},
};

/// The operations of this file.
pub(super) fn operations() -> Vec<Operation> {
    let app = || text(1, 256);
    let defined = object([
        ("name", string()),
        ("version", count()),
        ("unchanged", flag()),
        ("warnings", many(string())),
        ("released?", of("Released")),
    ]);
    let released = object([
        ("name", string()),
        ("version", count()),
        ("older", count()),
        ("stranded", count()),
        ("lacking", many(string())),
    ]);
    let deleted = object([("app", string()), ("name", string()), ("live", count())]);
    vec![
        Operation::get("/workflows", "listWorkflows", list)
            .says("List all workflows with their controls.")
            .answers(200, "All workflows.", object([("workflows", many(of("Workflow")))])),
        Operation::get("/workflows/{name}", "showWorkflow", show)
            .says("Show a workflow with its definition.")
            .query("app", app())
            .answers(200, "The workflow, as the current release defines it.", of("Workflow")),
        Operation::put("/workflows/{name}", "defineWorkflow", define)
            .says("Define a workflow that is called by URL. A change creates a new version.")
            .query("app", app())
            .body(json!({ "type": "object" }))
            .answers(200, "The workflow is defined.", defined),
        Operation::delete("/workflows/{name}", "deleteWorkflow", delete)
            .says("Delete a workflow. Accepted runs continue, and its history stays.")
            .query("app", app())
            .answers(200, "The number of runs that continue.", deleted),
        Operation::post("/workflows/{name}/release", "release", release)
            .says("Release a version: new runs use it, under its handoff.")
            .query("app", app())
            .body(closed([("version", number(1, u32::MAX))]))
            .answers(200, "The version is the current one.", released),
    ]
}

pub(super) fn shapes() -> Vec<(&'static str, Value)> {
    let workflow = [
        ("app", string()),
        ("name", string()),
        ("versions", many(count())),
        ("version?", count()),
        ("triggers?", many(any())),
        ("url?", string()),
        ("description?", string()),
        ("schema?", json!({ "type": "object" })),
        ("flowControl?", json!({ "type": "object" })),
        ("definition?", json!({ "type": "object" })),
    ];
    let released = [("older", count()), ("stranded", count()), ("lacking", many(string()))];
    vec![("Workflow", object(workflow)), ("Released", object(released))]
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Of {
    app: Option<String>,
}

/// All definitions of a workspace.
pub(crate) async fn catalog(engine: &Engine) -> Result<Arc<Catalog>, tidegate::Error> {
    let ws = engine.workspace().into();
    let catalogs = engine.store().read(ReadSet::default().catalog(&ws)).await?.catalogs;
    Ok(catalogs.get(&ws).cloned().unwrap_or_default())
}

fn view(app: &str, name: &str, entry: &Entry) -> Value {
    let versions: Vec<u32> = entry.versions.keys().copied().collect();
    let mut told = json!({ "app": app, "name": name, "versions": versions });
    if let Some(current) = &entry.current {
        told["version"] = current.version.number.into();
        let workflow = current.workflow.public();
        let author = workflow.to_value();
        told["triggers"] = author.get("triggers").cloned().unwrap_or_else(|| json!([]));
        if let Some(url) = &workflow.url {
            told["url"] = url.as_str().into();
        }
        if let Some(text) = &current.workflow.description {
            told["description"] = text.as_str().into();
        }
        if let Some(schema) = &current.workflow.schema {
            told["schema"] = schema.clone();
        }
        if let Some(controls) = current.workflow.flow_control() {
            told["flowControl"] = controls;
        }
    }
    told
}

pub(super) async fn list(caller: Caller) -> Result<Json<Value>, Problem> {
    let catalog = catalog(&caller.engine).await?;
    let there = catalog.entries().filter(|(_, entry)| !entry.is_retired());
    let all: Vec<_> = there.map(|((app, name), entry)| view(app, name, entry)).collect();
    Ok(Json(json!({ "workflows": all })))
}

pub(super) async fn show(
    caller: Caller,
    At(name): At<String>,
    Query(of): Query<Of>,
) -> Result<Json<Value>, Problem> {
    let app = caller.app(of.app);
    let catalog = catalog(&caller.engine).await?;
    let entry = catalog.entry(&app, &name).filter(|entry| !entry.is_retired());
    let entry = entry.ok_or_else(|| {
        let detail = format!("there is no workflow `{name}` in app `{app}`");
        Problem::not_found("no_workflow", detail)
    })?;
    let mut told = view(&app, &name, entry);
    if let Some(current) = &entry.current {
        told["definition"] = current.workflow.public().to_value();
    }
    Ok(Json(told))
}

/// Defines a workflow that is called by URL. A change creates a new version.
pub(super) async fn define(
    caller: Caller,
    At(name): At<String>,
    Query(of): Query<Of>,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let app = caller.app(of.app);
    let mut definition: Value = body.required()?;
    let members = definition
        .as_object_mut()
        .ok_or_else(|| Problem::invalid("bad_definition", "a definition must be an object"))?;
    // The name of an action is relative to its flow in the definition; in the URL it includes the
    // flow.
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
    let mut told = json!({
        "app": app, "name": name, "version": registered.version,
        "unchanged": registered.unchanged, "warnings": warnings(&caller, &definition, &registered).await?,
    });
    if let Some(released) = registered.released {
        told["released"] = view_released(&released);
    }
    Ok(Json(told))
}

/// Parses the URLs of a definition with the parser that calls use: a URL that is only invalid
/// there, such as `http://1.2.3.999`, would fail every run.
pub(crate) fn check_urls(definition: &Value) -> Result<(), String> {
    for (field, url) in
        [("url", &definition["url"]), ("onFailure.url", &definition["onFailure"]["url"])]
    {
        if let Some(error) = url.as_str().and_then(|url| reqwest::Url::parse(url).err()) {
            let name = definition["name"].as_str().unwrap_or_default();
            return Err(format!("workflow `{name}`: {field} is not a valid URL: {error}"));
        }
    }
    Ok(())
}

/// The warnings of a valid definition.
async fn warnings(
    caller: &Caller,
    definition: &Value,
    registered: &Registered,
) -> Result<Vec<String>, Problem> {
    let parsed = Definition::parse(definition).map_err(|it| tidegate::Error::Definition(it.0))?;
    let mut warnings: Vec<_> = parsed.warnings.iter().map(ToString::to_string).collect();
    if parsed.value.url.is_none() && !caller.engine.is_served(registered).await? {
        warnings.push(format!(
            "workflow `{}`: no engine has code for it, and it has no `url`: its runs wait until an \
             engine with its code starts",
            parsed.value.name
        ));
    }
    Ok(warnings)
}

pub(super) async fn delete(
    caller: Caller,
    At(name): At<String>,
    Query(of): Query<Of>,
) -> Result<Json<Value>, Problem> {
    let app = caller.app(of.app);
    let retired = caller.engine.retire(&app, &name).await?;
    Ok(Json(json!({ "app": app, "name": name, "live": retired.live })))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReleaseBody {
    version: u32,
}

pub(super) async fn release(
    caller: Caller,
    At(name): At<String>,
    Query(of): Query<Of>,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let app = caller.app(of.app);
    let ReleaseBody { version } = body.required()?;
    let released = caller.engine.release(&app, &name, version).await?;
    let mut told = view_released(&released);
    (told["app"], told["name"], told["version"]) = (app.into(), name.into(), version.into());
    Ok(Json(told))
}

/// The effects of a release on the runs of other versions.
fn view_released(released: &Released) -> Value {
    let Released { older, stranded, lacking, .. } = released;
    json!({ "older": older, "stranded": stranded, "lacking": lacking })
}
