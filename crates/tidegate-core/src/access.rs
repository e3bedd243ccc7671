//! Keys of the API: made, used and taken back. Who may do what with one is the server's business.

use crate::{
    command::Refusal,
    draft::{Decided, Draft, Stop},
    reads::Scan,
    row::{ApiKey, Row, RowKey, Workspace},
    time::Timestamp,
};

/// The most keys of all workspaces, so that all of them can be held in memory.
pub const MAX_KEYS: u32 = 1000;

/// What is done with a key.
#[derive(Clone, Debug)]
pub enum AccessCommand {
    /// Adds one.
    Make(Box<ApiKey>),
    /// Takes one back, for good.
    Revoke {
        /// The workspace.
        ws: Workspace,
        /// The key.
        id: String,
    },
    /// Notes when one was used.
    Used {
        /// The key.
        id: String,
        /// When.
        at: Timestamp,
    },
}

/// Why a change of keys was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessRefusal {
    /// No such key in this workspace.
    #[error("there is no key `{0}`")]
    NoKey(String),
    /// The id is taken.
    #[error("there is a key `{0}` already")]
    Taken(String),
    /// There are as many as there may be.
    #[error("there are {MAX_KEYS} keys, which is the limit")]
    TooManyKeys,
}

impl AccessRefusal {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoKey(_) => "no_key",
            Self::Taken(_) => "key_taken",
            Self::TooManyKeys => "too_many_keys",
        }
    }
}

impl AccessCommand {
    /// Whether anything changed.
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
