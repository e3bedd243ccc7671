//! The `keys` commands. They change the store directly, or through the server that has it open.

use std::io::Write;

use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};
use tidegate_core::{
    access::AccessCommand,
    audit::{AuditEntry, Author},
    row::Workspace,
    time::Timestamp,
};
use tidegate_store::{Clock as _, Store, StoreError, SystemClock};

use super::{Remote, Server, part, table, text};
use crate::{
    config::Config,
    keys::{self, KeyView},
    serve::open,
};

/// The commands on API keys.
#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Create a key and print it. It is shown only once.
    Create {
        /// Name of the key.
        #[arg(long)]
        name: String,
        /// Create a read-only key.
        #[arg(long)]
        read_only: bool,
        /// Number of days until the key expires.
        #[arg(long)]
        expires_days: Option<u32>,
    },
    /// List the keys, without their secrets.
    List,
    /// Revoke a key permanently.
    Revoke {
        /// Public part of the key.
        id: String,
    },
}

impl Keys {
    /// Runs the command on the store, without a server. This is the only way to create the first
    /// key of a server that is reachable from other machines.
    async fn in_store(
        self,
        store: &dyn Store,
        ws: Workspace,
    ) -> anyhow::Result<(Value, Option<String>)> {
        match self {
            Self::Create { name, read_only, expires_days } => {
                keys::check_name(&name)?;
                let entry = entry(&ws, "makeKey", "/keys".to_owned());
                let wanted = keys::Wanted { ws, name, read_only, expires_at: end(expires_days) };
                let (text, key) = keys::make(store, wanted, Some(&entry)).await?;
                let mut view = json!(KeyView::from(&key));
                view["key"] = text.clone().into();
                Ok((view, Some(format!("{text}\n"))))
            }
            Self::List => {
                let keys = keys::all(store).await?.0;
                Ok((json!({ "keys": keys.iter().map(KeyView::from).collect::<Vec<_>>() }), None))
            }
            Self::Revoke { id } => {
                let entry = entry(&ws, "revokeKey", format!("/keys/{id}"));
                let revoke = AccessCommand::Revoke { ws, id: id.clone() };
                keys::change(store, revoke, Some(&entry)).await?;
                Ok((json!({ "id": id, "revoked": true }), Some(format!("{id} is revoked\n"))))
            }
        }
    }

    async fn by_server(self, server: &Server<'_>) -> anyhow::Result<(Value, Option<String>)> {
        match self {
            Self::Create { name, read_only, expires_days } => {
                let end = end(expires_days).map(Timestamp::rfc3339);
                let body = json!({ "name": name, "readOnly": read_only, "expiresAt": end });
                let answer = server.post("/keys", body).await?;
                let shown = format!("{}\n", text(&answer["key"]));
                Ok((answer, Some(shown)))
            }
            Self::List => Ok((server.get("/keys").await?, None)),
            Self::Revoke { id } => {
                let path = format!("/keys/{}", part(&id));
                let answer = server.ask(Method::DELETE, &path, None).await?;
                Ok((answer, Some(format!("{id} is revoked\n"))))
            }
        }
    }
}

/// Returns the audit log's entry of a change that this program makes without a server.
fn entry(ws: &Workspace, operation: &str, subject: String) -> AuditEntry {
    let by = Author { name: None, address: Some("command line".to_owned()) };
    let (ws, operation) = (ws.clone(), operation.to_owned());
    AuditEntry { ws, by, operation, subject, before: None, after: None }
}

/// Returns the time that is this number of days from now.
fn end(days: Option<u32>) -> Option<Timestamp> {
    days.map(|days| SystemClock.now().plus_ms(u64::from(days) * 24 * 60 * 60 * 1000))
}

/// Runs a command in the store, or through the server that has it open.
pub(crate) async fn keys(
    remote: &Remote,
    config: &Config,
    command: Keys,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let server = Server::new(remote).await?;
    let store = match server.key {
        Some(_) => None,
        None => match open(config.location()?).await {
            Ok(store) if config.text("store") != "memory" => Some(store),
            Ok(_) => None,
            Err(error) if held(&error) => None,
            Err(error) => return Err(error),
        },
    };
    let ws = remote.workspace.clone().unwrap_or_else(|| config.workspace.clone());
    let (answer, shown) = match store {
        Some(store) => command.in_store(&*store, ws.as_str().into()).await?,
        None => command.by_server(&server).await?,
    };
    let shown = shown.unwrap_or_else(|| {
        let columns = ["id", "name", "workspace", "access", "madeAt", "lastUsedAt", "revokedAt"];
        table(&answer["keys"], &columns)
    });
    remote.print(out, &answer, &shown)
}

/// Whether another process has the file open.
fn held(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(StoreError::InUse { .. }))
}
