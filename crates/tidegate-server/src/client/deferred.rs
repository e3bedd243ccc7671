//! The `deferred` commands.

use clap::Subcommand;
use serde_json::{Value, json};

use super::{Server, part, table, text};

/// The commands on deferred events and requests.
#[derive(Debug, Subcommand)]
pub(crate) enum Deferred {
    /// List events and requests that wait for their delivery, newest first.
    List {
        /// Maximum number of them.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Cancel one before its delivery. Its deduplication id can be used again.
    Cancel {
        /// Id of the event, or of the request.
        id: String,
        /// Reason, for the run of a request.
        #[arg(long)]
        reason: Option<String>,
    },
}

pub(super) async fn deferred(
    server: &Server<'_>,
    command: Option<Deferred>,
) -> anyhow::Result<(Value, String)> {
    match command.unwrap_or(Deferred::List { limit: 50 }) {
        Deferred::List { limit } => {
            let answer = server.get(&format!("/deferred?limit={limit}")).await?;
            let columns = ["id", "kind", "name", "deliverAt", "dedupeId", "requestId"];
            let shown = table(&answer["deferred"], &columns);
            Ok((answer, shown))
        }
        Deferred::Cancel { id, reason } => {
            let body = reason.map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
            let answer = server.post(&format!("/deferred/{}/cancel", part(&id)), body).await?;
            let (name, at) = (text(&answer["name"]), text(&answer["deliverAt"]));
            let shown = format!("{id} ({name}) cancelled; it was to be delivered at {at}\n");
            Ok((answer, shown))
        }
    }
}
