//! The state of a session, and what a run has staged for it.

use serde::{Deserialize, Serialize};

use super::Workspace;
use crate::{
    id::Seq,
    json::Payload,
    key::{Decimal, Path},
};

/// The document of one session. A session that was never written has no row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The workspace.
    pub ws: Workspace,
    /// The flow's app.
    pub app: String,
    /// The flow.
    pub flow: String,
    /// The session, as requests name it.
    pub id: String,
    /// How often it has changed.
    pub version: i64,
    /// The document.
    pub body: Payload,
}

/// What names a session inside of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionRef {
    /// The flow's app.
    pub app: String,
    /// The flow.
    pub flow: String,
    /// The session, as requests name it.
    pub id: String,
}

/// What is done to a document. No path means the document as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SessionOp {
    /// Reads what stands at the path; `null` where nothing does.
    Get {
        /// Where.
        path: Option<Path>,
    },
    /// Puts a value there, and makes the objects on the way to it.
    Set {
        /// Where.
        path: Option<Path>,
        /// What.
        value: Payload,
    },
    /// Merges an object into the one there, as RFC 7396 says: `null` removes a member.
    Merge {
        /// Where.
        path: Option<Path>,
        /// The members that change.
        value: Payload,
    },
    /// Adds a value to the end of the list there.
    Append {
        /// Where.
        path: Option<Path>,
        /// What.
        value: Payload,
    },
    /// Adds to the number there, exactly.
    Increment {
        /// Where.
        path: Option<Path>,
        /// How much.
        by: Decimal,
    },
}

impl SessionOp {
    /// The word for it.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Get { .. } => "get",
            Self::Set { .. } => "set",
            Self::Merge { .. } => "merge",
            Self::Append { .. } => "append",
            Self::Increment { .. } => "increment",
        }
    }

    /// Where it is done.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Get { path }
            | Self::Set { path, .. }
            | Self::Merge { path, .. }
            | Self::Append { path, .. }
            | Self::Increment { path, .. } => path.as_ref(),
        }
    }
}

/// What a run under `restart` has done to a session so far, one row for each operation.
///
/// Owned by the run: written and deleted under its lock. The run's row says how many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staged {
    /// The run.
    pub run: Seq,
    /// Its place in the run's order, from 0 without a gap.
    pub n: u32,
    /// The session.
    pub session: SessionRef,
    /// What was done.
    pub op: SessionOp,
    /// The document's version at that moment, without anything staged.
    pub version: i64,
    /// Of a read: what others had written there. None where an earlier read of the same path at
    /// the same version has kept it.
    pub seen: Option<Payload>,
}
