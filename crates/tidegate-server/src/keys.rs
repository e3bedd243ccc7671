//! API keys: their format, creation and lookup.
//!
//! A key is `tg_`, a public part for the lookup, and 256 random bits. Only its hash is stored. A
//! fast hash is sufficient, because there are too many possible keys to try.

use anyhow::bail;
use data_encoding::HEXLOWER;
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tidegate::Error;
use tidegate_core::{
    access::{AccessCommand, MAX_KEYS},
    audit::AuditEntry,
    command::Command,
    reads::{ReadSet, Scan},
    row::{ApiKey, Row, Workspace},
    time::Timestamp,
};
use tidegate_store::{Store, commit};

use crate::http::DateTime;

/// Attributes of a key to create.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) ws: Workspace,
    pub(crate) name: String,
    pub(crate) read_only: bool,
    pub(crate) expires_at: Option<Timestamp>,
}

/// Maximum length of a name, in characters.
pub(crate) const MAX_NAME: usize = 100;

/// Creates a key. Returns its text, which is shown only once, and the stored row.
pub(crate) async fn make(
    store: &dyn Store,
    wanted: Wanted,
    entry: Option<&AuditEntry>,
) -> Result<(String, ApiKey), Error> {
    let mut random = [0; 40];
    getrandom::fill(&mut random).expect("the operating system gives random bytes");
    let (public, secret) = random.split_at(8);
    let (id, secret) = (HEXLOWER.encode(public), HEXLOWER.encode(secret));
    let text = format!("tg_{id}_{secret}");
    let Wanted { ws, name, read_only, expires_at } = wanted;
    let key = ApiKey {
        hash: hash(&text),
        id,
        ws,
        name,
        read_only,
        made_at: store.read(ReadSet::default()).await?.now,
        expires_at,
        used_at: None,
        revoked_at: None,
    };
    change(store, AccessCommand::Make(Box::new(key.clone())), entry).await?;
    Ok((text, key))
}

/// Commits a change of the keys in a separate transaction, not through the committer of an engine:
/// the `keys` commands change keys without an engine, and both use this function. Changes are rare.
/// With an entry, the change is recorded in the audit log.
pub(crate) async fn change(
    store: &dyn Store,
    command: AccessCommand,
    entry: Option<&AuditEntry>,
) -> Result<(), Error> {
    let command = Command::Access { command };
    let command = match entry {
        Some(entry) => {
            let (entry, command) = (Box::new(entry.clone()), Box::new(command));
            Command::Audited { entry, command }
        }
        None => command,
    };
    for answer in commit(store, vec![(command, 0)]).await? {
        answer?;
    }
    Ok(())
}

/// Returns all keys, also expired and revoked ones, and the store's time.
pub(crate) async fn all(store: &dyn Store) -> Result<(Vec<ApiKey>, Timestamp), Error> {
    let snapshot = store.read(ReadSet::default().scan(Scan::ApiKeys, MAX_KEYS)).await?;
    let rows = snapshot.found(&Scan::ApiKeys).into_iter();
    let keys =
        rows.filter_map(|row| if let Row::ApiKey(it) = row { Some(it.clone()) } else { None });
    Ok((keys.collect(), snapshot.now))
}

/// Returns the public part of a key's text, or `None` if the text does not have the format of a
/// key.
pub(crate) fn public_part(text: &str) -> Option<&str> {
    text.strip_prefix("tg_")?.split_once('_').map(|(id, _)| id)
}

/// Whether the text is that of the key. The comparison takes constant time, so that its duration
/// reveals nothing about the key.
pub(crate) fn is(text: &str, key: &ApiKey) -> bool {
    hash(text).as_bytes().ct_eq(key.hash.as_bytes()).into()
}

/// Checks that a name has a valid length and no control characters.
pub(crate) fn check_name(name: &str) -> anyhow::Result<()> {
    let length = name.chars().count();
    if length == 0 || length > MAX_NAME || name.chars().any(char::is_control) {
        bail!("a key's name must have 1 to {MAX_NAME} characters and no control characters");
    }
    Ok(())
}

/// An API key, as the API returns it, without its hash.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Key")]
pub(crate) struct KeyView {
    id: String,
    name: String,
    workspace: String,
    #[schemars(extend("enum" = ["full", "read"]))]
    access: &'static str,
    #[schemars(with = "DateTime")]
    made_at: String,
    #[schemars(with = "Option<DateTime>")]
    expires_at: Option<String>,
    #[schemars(with = "Option<DateTime>")]
    last_used_at: Option<String>,
    #[schemars(with = "Option<DateTime>")]
    revoked_at: Option<String>,
}

impl From<&ApiKey> for KeyView {
    fn from(key: &ApiKey) -> Self {
        Self {
            id: key.id.clone(),
            name: key.name.clone(),
            workspace: key.ws.to_string(),
            access: if key.read_only { "read" } else { "full" },
            made_at: key.made_at.rfc3339(),
            expires_at: key.expires_at.map(Timestamp::rfc3339),
            last_used_at: key.used_at.map(Timestamp::rfc3339),
            revoked_at: key.revoked_at.map(Timestamp::rfc3339),
        }
    }
}

/// Returns the SHA-256 of a text, in hexadecimal.
pub(crate) fn hash(text: impl AsRef<[u8]>) -> String {
    HEXLOWER.encode(&Sha256::digest(text))
}
