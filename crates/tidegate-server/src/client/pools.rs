//! The `pools` commands.

use anyhow::Context;
use clap::Subcommand;
use reqwest::Method;
use serde_json::Value;

use super::{Server, part, table, text};

/// The commands on pools.
#[derive(Debug, Subcommand)]
pub(crate) enum Pools {
    /// List pools with their limits and the workflows that use them.
    List,
    /// Create or replace a pool. New limits apply at once.
    Put {
        /// Name of the pool.
        pool: String,
        /// Limits, as JSON: `{"concurrency": {"limit": 5}}`.
        limits: String,
    },
    /// Delete a pool that no workflow uses.
    Delete {
        /// Name of the pool.
        pool: String,
    },
}

pub(super) async fn pools(
    server: &Server<'_>,
    command: Option<Pools>,
) -> anyhow::Result<(Value, String)> {
    match command.unwrap_or(Pools::List) {
        Pools::List => {
            let answer = server.get("/pools").await?;
            let mut rows = answer["pools"].clone();
            for row in rows.as_array_mut().into_iter().flatten() {
                let users = row["users"].as_array().into_iter().flatten().map(text);
                row["users"] = users.collect::<Vec<_>>().join(", ").into();
            }
            let columns = ["name", "concurrency", "throttle", "rateLimit", "users"];
            let shown = table(&rows, &columns);
            Ok((answer, shown))
        }
        Pools::Put { pool, limits } => {
            let limits: Value = serde_json::from_str(&limits)
                .with_context(|| format!("the limits are not valid JSON: `{limits}`"))?;
            let path = format!("/pools/{}", part(&pool));
            let answer = server.ask(Method::PUT, &path, Some(limits)).await?;
            let shown = format!("pool {pool} is in force\n");
            Ok((answer, shown))
        }
        Pools::Delete { pool } => {
            let path = format!("/pools/{}", part(&pool));
            let answer = server.ask(Method::DELETE, &path, None).await?;
            let shown = format!("pool {pool} deleted\n");
            Ok((answer, shown))
        }
    }
}
