//! The program: opens the file, starts the engine and serves HTTP until Ctrl-C.

use std::{env, error::Error, time::Duration};

use saas::{outside::Outside, routes, workflows};
use tidegate::Engine;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = env::var("SAAS_DB").unwrap_or_else(|_| "saas.db".to_owned());
    let engine = Engine::sqlite(&path).await?;
    workflows::create_tables(&path)?;
    let engine = workflows::serve(engine, Outside::default()).start().await?;

    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    let ctrl_c = async { drop(tokio::signal::ctrl_c().await) };
    axum::serve(listener, routes::router(engine.clone())).with_graceful_shutdown(ctrl_c).await?;
    // Runs get ten seconds to finish. Unfinished runs continue after the next start.
    engine.drain(Duration::from_secs(10)).await;
    Ok(())
}
