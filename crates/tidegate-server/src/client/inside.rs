//! Reads a file that no server has open. The API runs inside this process, without a connection
//! that other programs could reach.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Method, Request, StatusCode},
};
use tidegate::{DEFAULT_WORKSPACE, Engine};
use tower_service::Service as _;

use crate::{
    call::{Calls, Private},
    config::Location,
    http::{self, Access, App},
    inngest::Inngest,
    operate::{pending, there},
    serve::open as open_store,
};

/// Opens the file and returns a router for it.
pub(super) async fn open(file: &Path, workspace: Option<&str>) -> anyhow::Result<Router> {
    let location = Location::file(there(file)?);
    // Opening the store would migrate the file, but this command must not change it.
    if let [first, ..] = pending(&location).await? {
        bail!("the schema lacks migration {}; run `tidegate migrate`", first.version);
    }
    let store = open_store(location).await;
    let store =
        store.context("the file is open in a server or is not a Tidegate store; use --server")?;
    let workspace = workspace.unwrap_or(DEFAULT_WORKSPACE);
    let engine = Engine::builder(store).workspaces([workspace]).read_only();
    let access = Arc::new(Access::inside(workspace));
    let calls = Calls::new(Private::None, Duration::ZERO, Vec::new())?;
    Ok(http::router(App {
        engine,
        access,
        ways: Arc::default(),
        inngest: Inngest::without_apps(calls),
        requests: http::Underway::default(),
        demo: false,
    }))
}

/// Sends a request to the router.
pub(super) async fn ask(
    router: &Router,
    method: &Method,
    path: &str,
) -> anyhow::Result<(StatusCode, String)> {
    if method != Method::GET {
        bail!("--file only reads; to change something, start `tidegate serve` on the file");
    }
    let request = Request::get(path).body(Body::empty())?;
    let answer = router.clone().call(request).await?;
    let status = answer.status();
    let body = to_bytes(answer.into_body(), usize::MAX).await?;
    Ok((status, String::from_utf8(body.to_vec())?))
}
