//! Commands that create and revoke API keys and record their use. The server does the
//! authorization.

use crate::{
    command::Refusal,
    draft::{Decided, Draft, Stop},
    reads::Scan,
    row::{ApiKey, Row, RowKey, Workspace},
    time::Timestamp,
};

/// Maximum number of API keys in all workspaces together: they must fit into memory.
pub const MAX_KEYS: u32 = 1000;

/// Command on API keys.
#[derive(Clone, Debug)]
pub enum AccessCommand {
    /// Adds a key.
    Make(Box<ApiKey>),
    /// Revokes a key permanently.
    Revoke {
        /// The workspace.
        ws: Workspace,
        /// The key.
        id: String,
    },
    /// Records the use of a key.
    Used {
        /// The key.
        id: String,
        /// When the key was used.
        at: Timestamp,
    },
}

/// Reason why a command on API keys was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessRefusal {
    /// The workspace has no key with this id.
    #[error("there is no API key `{0}`")]
    NoKey(String),
    /// A key with this id exists already.
    #[error("an API key `{0}` exists already")]
    Taken(String),
    /// The maximum number of keys is reached.
    #[error("there are already {MAX_KEYS} API keys, which is the maximum: revoke one first")]
    TooManyKeys,
}

impl AccessRefusal {
    /// Returns the stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoKey(_) => "no_key",
            Self::Taken(_) => "key_taken",
            Self::TooManyKeys => "too_many_keys",
        }
    }
}

impl AccessCommand {
    /// Decides the command; returns whether anything changed.
    pub(crate) fn decide(&self, draft: &mut Draft) -> Decided<bool> {
        match self {
            Self::Make(key) => make(draft, key),
            Self::Revoke { ws, id } => {
                let key = find(draft, id)?.filter(|key| key.ws == *ws);
                let key = key.ok_or_else(|| refused(AccessRefusal::NoKey(id.clone())))?;
                let first = key.revoked_at.is_none();
                if first {
                    draft.put(ApiKey { revoked_at: Some(draft.now()), ..key });
                }
                Ok(first)
            }
            Self::Used { id, at } => {
                let key = find(draft, id)?.filter(|key| key.used_at < Some(*at));
                Ok(key.map(|key| draft.put(ApiKey { used_at: Some(*at), ..key })).is_some())
            }
        }
    }
}

fn make(draft: &mut Draft, key: &ApiKey) -> Decided<bool> {
    if find(draft, &key.id)?.is_some() {
        return Err(refused(AccessRefusal::Taken(key.id.clone())));
    }
    if draft.found::<Refusal>(&Scan::ApiKeys, MAX_KEYS)?.len() >= MAX_KEYS as usize {
        return Err(refused(AccessRefusal::TooManyKeys));
    }
    draft.put(ApiKey { made_at: draft.now(), ..key.clone() });
    Ok(true)
}

fn find(draft: &Draft, id: &str) -> Decided<Option<ApiKey>> {
    let row = draft.row(&RowKey::ApiKey(id.to_owned()))?;
    Ok(if let Some(Row::ApiKey(key)) = row { Some(key.clone()) } else { None })
}

fn refused(refusal: AccessRefusal) -> Stop<Refusal> {
    Stop::Refused(refusal.into())
}
