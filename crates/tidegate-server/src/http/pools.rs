//! Pools: limits that several workflows share.

use axum::Json;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{
    Caller,
    body::{At, Body},
    operation::Operation,
    problem::Problem,
    schema::Object,
};

/// Returns the HTTP operations that this file defines.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/pools", "listPools", list)
            .says("List the pools with the workflows that use them.")
            .answers::<Pools>(200, "All pools, by name."),
        Operation::get("/pools/{name}", "showPool", show)
            .says("Show a pool with the workflows that use it.")
            .answers::<PoolView>(200, "The pool."),
        Operation::put("/pools/{name}", "putPool", put)
            .says("Create or replace a pool. New limits apply at once, to queued runs, too.")
            .body::<Object>()
            .answers::<PoolView>(200, "The pool."),
        Operation::delete("/pools/{name}", "deletePool", delete)
            .says("Delete a pool that no workflow uses.")
            .answers::<Deleted>(200, "The pool is deleted."),
    ]
}

/// A pool, with the workflows that use it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Pool")]
pub(super) struct PoolView {
    name: String,
    /// Limit on the runs inside at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    concurrency: Option<Value>,
    /// Limit on starts over time, or a list of limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    throttle: Option<Value>,
    /// Limit on admitted inputs over time, or a list of limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_limit: Option<Value>,
    /// Workflows whose current release uses the pool: `name`, or `app:name`.
    users: Vec<String>,
}

impl From<tidegate::PoolView> for PoolView {
    fn from(pool: tidegate::PoolView) -> Self {
        let part = |name: &str| pool.definition.get(name).cloned();
        Self {
            concurrency: part("concurrency"),
            throttle: part("throttle"),
            rate_limit: part("rateLimit"),
            name: pool.name,
            users: pool.users,
        }
    }
}

/// All pools of a workspace.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Pools {
    pools: Vec<PoolView>,
}

async fn list(caller: Caller) -> Result<Json<Pools>, Problem> {
    let pools = caller.engine.pools().await?.into_iter();
    Ok(Json(Pools { pools: pools.map(PoolView::from).collect() }))
}

async fn show(caller: Caller, At(name): At<String>) -> Result<Json<PoolView>, Problem> {
    Ok(Json(caller.engine.pool(&name).await?.into()))
}

async fn put(caller: Caller, At(name): At<String>, body: Body) -> Result<Json<PoolView>, Problem> {
    let mut declaration: Value = body.required()?;
    let members = declaration
        .as_object_mut()
        .ok_or_else(|| Problem::invalid("bad_definition", "a pool must be an object"))?;
    let given = members.entry("name").or_insert_with(|| name.as_str().into());
    if *given != name.as_str() {
        let detail = format!("`name` is {given} in the body, but `{name}` in the URL");
        return Err(Problem::invalid("bad_definition", detail));
    }
    caller.engine.put_pool(&declaration).await?;
    Ok(Json(caller.engine.pool(&name).await?.into()))
}

/// A deleted pool.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DeletedPool")]
pub(super) struct Deleted {
    name: String,
}

async fn delete(caller: Caller, At(name): At<String>) -> Result<Json<Deleted>, Problem> {
    caller.engine.remove_pool(&name).await?;
    Ok(Json(Deleted { name }))
}
