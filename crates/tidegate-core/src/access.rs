//! API keys: created, used and revoked. Authorization is done by the server.

use crate::{
    command::Refusal,
    draft::{Decided, Draft, Stop},
    reads::Scan,
    row::{ApiKey, Row, RowKey, Workspace},
    time::Timestamp,
};

/// Maximum number of keys of all workspaces, so that all of them can be held in memory.
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

/// Reason why a change of keys was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessRefusal {
    /// No such key in this workspace.
    #[error("there is no key `{0}`")]
    NoKey(String),
    /// The id is taken.
    #[error("there is a key `{0}` already")]
    Taken(String),
    /// The maximum number of keys is reached.
    #[error("there are {MAX_KEYS} keys, which is the limit")]
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
