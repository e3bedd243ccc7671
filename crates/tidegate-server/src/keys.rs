//! API keys: their format, creation and lookup.
//!
//! A key is `tg_`, a public part for the lookup, and 256 random bits. Only its hash is stored: a
//! fast hash is right, because the keys are too many to try them all.

use std::fmt::Write as _;

use anyhow::bail;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tidegate::Error;
use tidegate_core::{
    access::{AccessCommand, MAX_KEYS},
    command::Command,
    reads::{ReadSet, Scan},
    row::{ApiKey, Row, Workspace},
    time::Timestamp,
};
use tidegate_store::{Store, commit};

/// The attributes of a new key.
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
pub(crate) async fn make(store: &dyn Store, wanted: Wanted) -> Result<(String, ApiKey), Error> {
    let mut random = [0; 40];
    getrandom::fill(&mut random).expect("the operating system gives random bytes");
    let (public, secret) = random.split_at(8);
    let (id, secret) = (hex(public), hex(secret));
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
    change(store, AccessCommand::Make(Box::new(key.clone()))).await?;
    Ok((text, key))
}

/// Commits a change of the keys.
pub(crate) async fn change(store: &dyn Store, command: AccessCommand) -> Result<(), Error> {
    for answer in commit(store, vec![(Command::Access { command }, 0)]).await? {
        answer?;
    }
    Ok(())
}

/// All keys, also expired and revoked ones, and the store's time.
pub(crate) async fn all(store: &dyn Store) -> Result<(Vec<ApiKey>, Timestamp), Error> {
    let snapshot = store.read(ReadSet::default().scan(Scan::ApiKeys, MAX_KEYS)).await?;
    let rows = snapshot.found(&Scan::ApiKeys).into_iter();
    let keys =
        rows.filter_map(|row| if let Row::ApiKey(it) = row { Some(it.clone()) } else { None });
    Ok((keys.collect(), snapshot.now))
}

/// The public part of a key's text, if it has the format of one.
pub(crate) fn public_part(text: &str) -> Option<&str> {
    text.strip_prefix("tg_")?.split_once('_').map(|(id, _)| id)
}

/// Whether the text is that key. Takes constant time, so that it reveals nothing about the key.
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

/// A key as clients see it, without its hash.
pub(crate) fn view(key: &ApiKey) -> Value {
    let access = if key.read_only { "read" } else { "full" };
    json!({
        "id": key.id, "name": key.name, "workspace": &*key.ws, "access": access,
        "madeAt": key.made_at.rfc3339(),
        "expiresAt": key.expires_at.map(Timestamp::rfc3339),
        "lastUsedAt": key.used_at.map(Timestamp::rfc3339),
        "revokedAt": key.revoked_at.map(Timestamp::rfc3339),
    })
}

/// The SHA-256 of a text, in hexadecimal.
pub(crate) fn hash(text: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(text))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
